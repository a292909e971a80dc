import sys, urllib.request
passwords = urllib.request.HTTPPasswordMgrWithDefaultRealm()
passwords.add_password(None, sys.argv[1], "ada", "secret")
opener = urllib.request.build_opener(urllib.request.HTTPBasicAuthHandler(passwords))
print(opener.open(sys.argv[1] + "/basic").read())
