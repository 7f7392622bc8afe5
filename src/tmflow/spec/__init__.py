"""What a trial is: its factors, strategies, models, abort codes and the environment of its process."""
