# Checks one package record from standard input, and notes it in the file $LEDGER: one line with the task id, the attempt
# and what was found. A record that is not one will never be: exit code 100 says so.
#
#   millrace work packages --exec 'awk -f scripts/demo/check-record.awk'
/^Package: /      { package = $2 }
/^Version: /      { version = $2 }
/^Architecture: / { architecture = $2 }
/^Size: /         { size = $2 }
/^SHA256: /       { sha256 = $2 }

END {
  if (package !~ /^[a-z0-9][a-z0-9+.-]*$/) wrong = wrong " Package"
  if (version == "") wrong = wrong " Version"
  # A package that is installed but in no archive has neither of these; half of them is wrong.
  if (size != "" || sha256 != "") {
    if (size !~ /^[0-9]+$/) wrong = wrong " Size"
    if (length(sha256) != 64 || sha256 ~ /[^0-9a-f]/) wrong = wrong " SHA256"
  }
  if (wrong != "") {
    print "no good record, wrong or missing:" wrong > "/dev/stderr"
    exit 100
  }
  if (ENVIRON["LEDGER"] != "") {
    print ENVIRON["MILLRACE_TASK_ID"], ENVIRON["MILLRACE_ATTEMPT"], package, version, architecture, size, sha256 \
      >> ENVIRON["LEDGER"]
  }
}
