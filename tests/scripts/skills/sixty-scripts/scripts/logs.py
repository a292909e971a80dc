"""Logs to stderr and to a file."""
import io
import logging
import logging.handlers

text = io.StringIO()
logging.basicConfig(level=logging.DEBUG, format="%(levelname)s %(name)s %(message)s", stream=text)
log = logging.getLogger("a.b")
log.info("count %d", 3)
try:
    {}["x"]
except KeyError:
    log.exception("failed")
handler = logging.handlers.RotatingFileHandler("run.log", maxBytes=40, backupCount=1)
log.addHandler(handler)
for number in range(4):
    log.warning("number %d of a file", number)
handler.close()
lines = text.getvalue().splitlines()
print(lines[0], lines[1], lines[-1])
print(open("run.log").read())
