#!/usr/bin/env bash
# What a kubelet does on a new node, with what lies on its disk: `joins.sh NAME ZONE`. Checks what it may not do.
set -euo pipefail
name=$1 zone=$2
cd /root
export HOME=/root
bootstrap=/etc/kubernetes/bootstrap-kubelet.kubeconfig
as() { /opt/kaws/bin/kubectl --kubeconfig "$@"; }
refused() { if said=$("$@" 2>&1); then echo "not refused: $*" && exit 1; fi; grep -qi forbidden <<<"$said" || { echo "$said" && exit 1; }; }

for _ in $(seq 60); do
  as $bootstrap auth whoami >/dev/null 2>&1 && break
  sleep 1
done
# The token is good for asking for a certificate, and for nothing else.
refused as $bootstrap get nodes
refused as $bootstrap get secrets -A

openssl ecparam -name prime256v1 -genkey -noout -out kubelet.key 2>/dev/null
openssl req -new -key kubelet.key -subj "/O=system:nodes/CN=system:node:$name" -out kubelet.csr
as $bootstrap create -f - >/dev/null <<CSR
apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: {name: node-$name}
spec:
  request: $(base64 -w0 kubelet.csr)
  signerName: kubernetes.io/kube-apiserver-client-kubelet
  usages: [digital signature, client auth]
CSR
for _ in $(seq 60); do
  as $bootstrap get csr "node-$name" -o 'jsonpath={.status.certificate}' | base64 -d >kubelet.crt
  [ -s kubelet.crt ] && break
  sleep 1
done
openssl x509 -in kubelet.crt -noout -subject | grep -q "system:node:$name"
mkdir -p /var/lib/kubelet
sed -e "s|user: {token: .*|user: {client-certificate: /root/kubelet.crt, client-key: /root/kubelet.key}|" $bootstrap >/var/lib/kubelet/kubeconfig
own=/var/lib/kubelet/kubeconfig

node() { printf '{"apiVersion":"v1","kind":"Node","metadata":{"name":"%s","labels":{%s}},"spec":{"providerID":"aws:///%s/%s"}}' "$1" "$2" "$zone" "$1"; }
node "$name" '"node-restriction.kubernetes.io/a":"b"' >forbidden.json
refused as $own create -f forbidden.json
node i-0000000000000000f '"kubernetes.io/os":"linux"' >other.json
refused as $own create -f other.json
node "$name" '"kubernetes.io/os":"linux"' | as $own create -f - >/dev/null
refused as $own label node "$name" node-role.kubernetes.io/control-plane=
refused as $own get secrets -A
refused as $own get node i-0000000000000000f
server=$(sed -n 's/^ *server: //p' $own)
curl -sSf -o /dev/null --noproxy '*' --cacert /etc/kubernetes/pki/ca.crt --cert kubelet.crt --key kubelet.key -X PATCH \
  -H 'Content-Type: application/merge-patch+json' "$server/api/v1/nodes/$name/status" \
  -d '{"status":{"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady","message":"ready"}]}}'
