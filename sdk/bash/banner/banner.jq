# From a request to its answer. Not here: how jq is started (bin/banner).

# Returns the placeholder of one of the plugin's secrets, which the node fills in.
def secret($name): "@{secret \(.plugin.name)/\($name)}";

# Returns the settings that count for a group: its pool's own, where it has some.
def settings_for($group):
  .plugin.poolSettings[.groups[$group].pool // ""] // .plugin.settings;

def unit($port): "[Unit]
Description=Greeting of \(.cluster.name)
Wants=network-online.target
After=network-online.target

[Service]
ExecStart=/usr/bin/python3 -m http.server \($port) --directory /etc/motd.d
DynamicUser=yes
Restart=on-failure

[Install]
WantedBy=kaws.target
";

# Returns the greeting of one group, and what serves it where there is a port.
def greet($group):
  settings_for($group) as {$text, $port}
  | "This is @{node group} of cluster \(.cluster.name) in \(.cluster.region)." as $place
  | {machines: {($group): {files: {
      "/etc/motd.d/banner": {content: "\($text)\n\($place)\n"},
      "/etc/banner/token": {content: secret("token"), mode: "0600"}
    }}}},
    if $port == null then empty else
      {machines: {($group): {units: {"banner.service": {content: unit($port)}}}}},
      {securityGroups: {($group): {ingress: {banner: {
        protocol: "tcp", port: $port, from: {cidr: .cluster.network.vpc.cidr}
      }}}}}
    end;

# Returns what machines, stacks and the API server have of the greeting, in parts.
def parts:
  .plugin.settings as {$text, $links}
  | greet(.plugin.nodes[]),
    {values: {banner: {text: $text}}},
    {kubelet: {nodes: {labels: {"example.org/banner": "yes"}}}},
    {iam: {nodes: {statements: {
      BannerPublish: {Action: "sns:Publish", Resource: {"$output": "banner.TopicArn"}}
    }}}},
    {stacks: {banner: {
      resources: {Topic: {Type: "AWS::SNS::Topic", Properties: {DisplayName: $text}}},
      outputs: {TopicArn: {Value: {Ref: "Topic"}}}
    }}},
    {manifests: {banner: {objects: {links: {
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: {name: "banner", namespace: "kube-public"},
      data: $links
    }}}}};

def initialise: {contribution: (reduce parts as $part ({}; . * $part))};

# Makes a file of the greeting, and says so where there is none.
def render:
  .plugin.settings.text as $text
  | {artifacts: {"banner.txt": "\($text)\n"}}
  + if $text != "" then {} else {findings: [{
      severity: "warning",
      code: "silent",
      message: "The greeting is empty.",
      help: "set settings.text, or turn the plugin off"
    }]} end;

if .stage == "initialise" then initialise
elif .stage == "render" then render
else {} end
