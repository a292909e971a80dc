"""Runs the named parts, or all, and prints the results."""
import check
import fleet
import manifests
import proxies

if __name__ == "__main__":
    check.main({"manifests": manifests.run, "proxies": proxies.run, "fleet": fleet.run})
