#!/usr/bin/env bash
# Makes the secrets of a deployment: a CA and a certificate of the service, a token for the agent, a
# password for Redis.
#
#   deploy/secrets.sh --kubernetes | kubectl apply --server-side -f -   # for kustomize/base
#   deploy/secrets.sh deploy/secrets                                    # files, for compose.yaml
#
# Run it once: each run makes new secrets. NAMES (none) are further DNS names of the service, separated by
# commas. NAMESPACE (setpoint) is where the Secrets go. RELEASE (setpoint) is the name of the chart's release, or its fullnameOverride, CLUSTER
# (default) its value cluster, and PARTS (none) are external-metrics and specs, if externalMetrics and
# service.specs are used. CALLERS (none) are further callers, separated by commas: each gets a token, caller-NAME, and
# needs a grant in the policy. To add a caller later, append the output of `setpoint token` to the tokens file.
# Certificates are valid for a year; the key of the CA is not kept. ONLY=certificate makes another certificate and its CA, in place of those
# that are there, and leaves the rest: then give ca.crt to callers that have a copy, and restart the balancer of compose.yaml. With cert-manager, let a Certificate
# with secretName setpoint-tls and these names, and a copy of its ca.crt, replace the first two Secrets.
set -euo pipefail
umask 077
destination=${1:-}
case $destination in
'' | --help | -h) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p;}' "$0"; exit 2 ;;
--kubernetes) ;;
*) mkdir -p "$destination"; destination=$(cd "$destination" && pwd) ;;
esac
case ${ONLY:=} in '' | certificate) ;; *) echo "ONLY is $ONLY: only certificate can be made alone" >&2; exit 2 ;; esac
namespace=${NAMESPACE:-setpoint} release=${RELEASE:-setpoint} cluster=${CLUSTER:-default}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

names=DNS:localhost,IP:127.0.0.1
for service in "$release" "$release-grpc"; do
  for name in $service $service.$namespace $service.$namespace.svc $service.$namespace.svc.cluster.local; do
    names+=,DNS:$name
  done
done
for name in $(tr , ' ' <<<"${NAMES:-}"); do names+=,DNS:$name; done

quiet() { "$@" 2>errors || { cat errors >&2; exit 1; }; }
quiet openssl ecparam -name prime256v1 -genkey -noout -out ca.key
quiet openssl req -x509 -new -key ca.key -sha256 -days 366 -subj '/CN=setpoint CA' -out ca.crt \
  -addext 'basicConstraints=critical,CA:TRUE,pathlen:0' -addext 'keyUsage=critical,keyCertSign,cRLSign'
quiet openssl ecparam -name prime256v1 -genkey -noout -out tls.key
quiet openssl req -new -key tls.key -subj '/CN=setpoint' -out tls.csr
printf 'subjectAltName=%s\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=serverAuth\nbasicConstraints=critical,CA:FALSE\n' "$names" >extensions
quiet openssl x509 -req -in tls.csr -CA ca.crt -CAkey ca.key -CAcreateserial -sha256 -days 365 -extfile extensions -out tls.crt
# token FILE IDENTITY : a token, and its entry in the file of tokens.
token() {
  local digest
  printf sp_%s "$(openssl rand -hex 32)" >"$1"
  digest=$(openssl dgst -sha256 -r <"$1" | cut -d' ' -f1)
  printf -- '- identity: %s\n  sha256: "%s"\n' "$2" "$digest" >>tokens.yaml
}
echo tokens: >tokens.yaml
token token "agent-$cluster"
callers=()
for name in $(tr , ' ' <<<"${PARTS:-}"); do
  case $name in external-metrics | specs) ;; *) echo "PARTS has $name: only external-metrics and specs are parts" >&2; exit 2 ;; esac
  callers+=("$name")
  token "$name" "$name-$cluster"
done
for name in $(tr , ' ' <<<"${CALLERS:-}"); do
  callers+=("caller-$name")
  token "caller-$name" "$name"
done
password=$(openssl rand -hex 32)

printf %s "$password" >password
printf 'requirepass %s\n' "$password" >redis.conf

# The folder is private, its files are readable: in containers another user reads them.
if [ "$destination" != --kubernetes ]; then
  files=(tls.pem ca.crt tokens.yaml token password redis.conf ${callers[@]+"${callers[@]}"})
  test -z "$ONLY" || files=(tls.pem ca.crt)
  for file in "${files[@]}"; do
    test -n "$ONLY" || test ! -e "$destination/$file" || { echo "$destination/$file is there already; ONLY=certificate replaces the certificate alone"; exit 1; }
  done
  chmod 0700 "$destination"
  cat tls.crt tls.key >tls.pem
  install -m 0644 "${files[@]}" "$destination"
  exit
fi

# secret NAME TYPE : the head of a Secret.
secret() {
  printf -- '---\napiVersion: v1\nkind: Secret\nmetadata:\n  name: %s\n  namespace: %s\ntype: %s\ndata:\n' "$1" "$namespace" "$2"
}
# entry KEY : an entry, of standard input.
entry() { printf '  %s: %s\n' "$1" "$(openssl base64 -A)"; }

secret "$release-tls" kubernetes.io/tls
entry tls.crt <tls.crt
entry tls.key <tls.key
secret "$release-ca" Opaque
entry ca.crt <ca.crt
test -z "$ONLY" || exit 0
secret "$release-tokens" Opaque
entry tokens.yaml <tokens.yaml
secret "$release-agent" Opaque
entry token <token
for caller in ${callers[@]+"${callers[@]}"}; do
  secret "$release-$caller" Opaque
  entry token <"$caller"
done
secret "$release-redis" Opaque
entry password <password
entry redis.conf <redis.conf
