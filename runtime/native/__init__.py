"""Programs in C++: building, loading, calling."""
