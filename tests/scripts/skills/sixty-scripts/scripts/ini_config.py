"""Reads and writes an ini file."""
import configparser
import sys

config = configparser.ConfigParser()
config.read("data/settings.ini")
print(config.getint("server", "port"), config["server"].getboolean("debug"), config["paths"]["logs"])
config["new"] = {"a": "1"}
config.write(sys.stdout)
