"""Needs what is not there."""
import requests
