"""The facts of this machine, its settings and its software; profiles of machines that are emulated."""
