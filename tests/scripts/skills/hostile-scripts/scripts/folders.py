"""Imports a folder that only the call can have brought."""
import brought

print("imported", brought)
