"""Needs what is not there."""
import aiohttp
