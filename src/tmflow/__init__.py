"""tmflow: which way of synchronising parallel SGD should you use, and is transactional memory ever it?"""

__version__ = "0.1.0"
