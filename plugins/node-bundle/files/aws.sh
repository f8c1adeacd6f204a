# shellcheck shell=sh
# Asks AWS as this machine. Credentials go to curl on its standard input: never into arguments or files.
# AWS_ENDPOINT_URL and AWS_EC2_METADATA_SERVICE_ENDPOINT are heeded, as AWS's own programs do.
ask() { curl --silent --show-error --fail --connect-timeout 10 --max-time 600 --retry 8 --retry-connrefused "$@"; }
imds=${AWS_EC2_METADATA_SERVICE_ENDPOINT:-http://169.254.169.254}/latest
meta() {
  token=$(ask -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 300' "$imds/api/token") || return 1
  printf 'header = "X-aws-ec2-metadata-token: %s"\n' "$token" | ask --config - "$imds/$1"
}
# signed SERVICE ARGUMENT...: a request of curl's, signed.
signed() {
  service=$1
  shift
  role=$(meta meta-data/iam/security-credentials/) || return 1
  given=$(meta "meta-data/iam/security-credentials/$role") || return 1
  field() { printf '%s\n' "$given" | sed -n "s/.*\"$1\" *: *\"\([^\"]*\)\".*/\1/p"; }
  printf 'user = "%s:%s"\nheader = "x-amz-security-token: %s"\n' \
    "$(field AccessKeyId)" "$(field SecretAccessKey)" "$(field Token)" |
    ask --aws-sigv4 "aws:amz:$KAWS_REGION:$service" --config - "$@"
}
object() {
  if [ -n "${AWS_ENDPOINT_URL:-}" ]; then
    printf '%s/%s/%s' "$AWS_ENDPOINT_URL" "$KAWS_BUCKET" "$1"
  else
    printf 'https://%s.s3.%s.%s/%s' "$KAWS_BUCKET" "$KAWS_REGION" "$KAWS_DNS_SUFFIX" "$1"
  fi
}
api() { printf '%s' "${AWS_ENDPOINT_URL:-https://$1.$KAWS_REGION.$KAWS_DNS_SUFFIX}/"; }
# get KEY FILE: an object of the state bucket. Rights of a new role take a while to be known everywhere.
get() {
  left=${KAWS_PATIENCE:-120}
  until why=$(signed s3 --output "$2" "$(object "$1")" 2>&1); do
    if [ "$left" -le 0 ]; then
      echo "$1: $why"
      return 1
    fi
    left=$((left - 5))
    sleep 5
  done
}
put() { signed s3 --upload-file "$2" --output /dev/null "$(object "$1")"; }
text() { sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/	/ /g' | tr -d '\000-\010\013-\037'; }
# report STATE PHASE MESSAGE [UNIT]: a small report beside the bundle, with what the unit said last. What more there is
# to say is in $units: how every unit is, and in $up: when the machine came up. $unsent is set where it could not be sent.
report() {
  # shellcheck disable=SC2034 # those that read this file ask for it
  unsent=
  said=$(mktemp)
  {
    printf '{"state":"%s","phase":"%s","message":"%s"' "$1" "$2" "$(printf %s "$3" | tr '\n' ' ' | text)"
    printf ',"instance":"%s","group":"%s","bundle":"%s"' "$(meta meta-data/instance-id)" "$KAWS_GROUP" "$KAWS_BUNDLE_SHA256"
    printf ',"time":"%s"' "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
    [ -z "${units:-}" ] || printf ',"units":{%s},"up":"%s"' "$units" "${up:-}"
    if [ -n "${4:-}" ]; then
      printf ',"unit":"%s","log":[' "$4"
      journalctl --unit "$4" --lines 20 --no-pager --output short 2>/dev/null | text | sed -e 's/.*/"&"/' -e '$!s/$/,/'
      printf ']'
    fi
    printf '}\n'
  } >"$said"
  put "reports/$(printf %s "$KAWS_GROUP" | tr : -)/${KAWS_REPORT:-$(meta meta-data/instance-id)}.json" "$said" || unsent=yes
  [ -z "$unsent" ] || echo "the report could not be sent" >&2
  rm -f "$said"
}
# signal SUCCESS|FAILURE: once for each bundle. CloudFormation refuses where it waits for none: that is no fault.
# Where it is asked too often it says so with 400, as for everything that is wrong with a request: only the body tells.
signal() {
  if [ "$(cat /var/lib/kaws/signalled 2>/dev/null)" != "$KAWS_BUNDLE_SHA256" ]; then
    mkdir -p /var/lib/kaws
    until=$(($(date +%s) + 900))
    until why=$(signed cloudformation --no-fail --fail-with-body --retry 0 -d Action=SignalResource -d Version=2010-05-15 -d "Status=$1" \
      -d "StackName=$KAWS_STACK" -d "LogicalResourceId=$KAWS_SIGNAL" -d "UniqueId=$(meta meta-data/instance-id)" \
      "$(api cloudformation)" 2>&1); do
      case $why in *ValidationError*) echo "nobody waits for the signal $1" >&2 && break ;; esac
      [ "$(date +%s)" -lt "$until" ] || { echo "the signal $1 could not be sent: $why" >&2 && return 1; }
      sleep 5
    done
    echo "$KAWS_BUNDLE_SHA256" >/var/lib/kaws/signalled
  fi
}
# fail PHASE MESSAGE [UNIT]: says why this machine does not come up, and ends.
fail() {
  echo "$1: $2" >&2
  report failed "$1" "$2" "${3:-}"
  signal FAILURE
  exit 1
}
