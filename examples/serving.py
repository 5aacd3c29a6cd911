"""
Serve a rejector and call it
============================

`openset serve FOLDER` answers HTTP requests with a class or "unknown". No client
library is needed.
"""

# %%
import io
import json
import re
import subprocess
import sys
from urllib.request import urlopen

import matplotlib.pyplot as plt
import numpy as np

import openset as ops

parts = ops.demo()
fitted = ops.detectors.PostMax().fit(parts.train)
pair = {"known": parts.validation, "surrogate": parts.surrogate, "train": parts.train}
ops.Rejector.calibrate(fitted, **pair).save("runs/served")

# %%
# **Start** it, as in a shell: `openset serve FOLDER --port 0`. Port 0 takes a free
# one. The first lines it writes say where it listens.

command = [sys.executable, "-m", "openset", "serve", "runs/served", "--port", "0"]
server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
lines = iter(server.stderr.readline, "")
address = next(found[0] for one in lines if (found := re.search(r"http://\S+\d", one)))

# %%
# **Call** it with known digits and digits that the network never saw.

new = ops.Outputs.concat([parts.test.take(range(150)), parts.unseen.take(range(150))])
body = io.BytesIO()
np.savez(body, logits=new.logits, features=new.features)
with urlopen(f"{address}/predict/npz", body.getvalue()) as reply:
    answer = json.load(reply)
print(answer["names"][:4], answer["names"][-4:])
with urlopen(f"{address}/metrics") as reply:  # for Prometheus
    counts = reply.read().decode()
print(*re.findall(r"^openset_samples_total.*", counts, re.MULTILINE), sep="\n")
server.terminate()
server.wait()

# %%
# Every decision, with the threshold.

known = np.array(answer["known"])
plt.plot(np.sort(known[:150]), ".", color="C0", label="known digits")
plt.plot(np.sort(known[150:]), ".", color="C3", label="digits never seen")
plt.axhline(answer["threshold"], color="black", linestyle="--", label="threshold")
plt.ylabel("knownness")
plt.legend()
