"""The manifests of docs/deploy against the schemas of Kubernetes, and the unit against
`systemd-analyze security`."""
import os
import re
import subprocess
import tempfile

import serving

DEPLOY = serving.REPOSITORY / "docs/deploy"
VERSION = "1.37"
# The maximum exposure of the unit, as `systemd-analyze security` rates it.
EXPOSURE = 2.0
# What the manifests must have, and in how many places.
KINDS = {"ConfigMap", "Deployment", "HorizontalPodAutoscaler", "NetworkPolicy",
         "PodDisruptionBudget", "Service"}


def run():
    wrong = []
    with tempfile.TemporaryDirectory(prefix="skillhost-deploy-") as folder:
        base = os.path.relpath(DEPLOY / "kubernetes", os.path.realpath(folder))
        for component, more in (("", set()), ("skills-from-claim", {"PersistentVolumeClaim"})):
            with open(os.path.join(folder, "kustomization.yaml"), "w", encoding="utf-8") as file:
                file.write("resources: [%s]\n" % base)
                if component:
                    file.write("components: [%s/components/%s]\n" % (base, component))
            built = subprocess.run([os.environ["KUSTOMIZE"], "build", folder], check=True,
                                   stdout=subprocess.PIPE, encoding="utf-8").stdout
            manifest = os.path.join(folder, "built.yaml")
            with open(manifest, "w", encoding="utf-8") as file:
                file.write(built)
            subprocess.run([os.environ["KUBERNETES_VALIDATE"], "-k", VERSION, "--strict",
                            "--quiet", manifest], check=True)
            kinds = set(re.findall(r"^kind: (\w+)$", built, re.MULTILINE))
            if kinds != KINDS | more:
                wrong.append("the manifests have %s" % sorted(kinds))
            print("%d manifests fit Kubernetes %s" % (len(kinds), VERSION))
    rated = subprocess.run(["systemd-analyze", "security", "--offline=true",
                            str(DEPLOY / "skillhost.service")], check=True,
                           stdout=subprocess.PIPE, encoding="utf-8").stdout
    exposure = float(re.search(r"Overall exposure level for .*: ([0-9.]+)", rated).group(1))
    print("the unit is rated %.1f" % exposure)
    if exposure > EXPOSURE:
        wrong.append("the unit is rated %.1f, more than %.1f" % (exposure, EXPOSURE))
    return wrong
