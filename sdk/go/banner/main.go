// Banner greets whoever logs in to a machine: the plugin `banner`, in Go.
package main

import (
	"fmt"

	kaws "github.com/kaws/kaws/sdk/go"
)

const unit = `[Unit]
Description=Greeting of %s
Wants=network-online.target
After=network-online.target

[Service]
ExecStart=/usr/bin/python3 -m http.server %d --directory /etc/motd.d
DynamicUser=yes
Restart=on-failure

[Install]
WantedBy=kaws.target
`

type settings struct {
	Text  string
	Port  *int
	Links map[string]string
}

type cluster struct {
	Name    string
	Region  string
	Network struct {
		VPC struct{ CIDR string }
	}
}

func main() {
	kaws.Main(kaws.Handlers{Initialise: initialise, Render: render})
}

// initialise adds what machines, stacks and the API server have of the greeting.
func initialise(request *kaws.Request) (*kaws.Response, error) {
	var own settings
	if err := request.Plugin.Settings.Decode(&own); err != nil {
		return nil, err
	}
	response := new(kaws.Response)
	response.Put(kaws.Path{"values", "banner", "text"}, own.Text)
	// A pool can have settings of its own: so each group gets its own greeting.
	for _, group := range request.Plugin.Nodes {
		if err := greet(response, request, group); err != nil {
			return nil, err
		}
	}
	response.Put(kaws.Path{"kubelet", "nodes", "labels", "example.org/banner"}, "yes")
	response.Put(kaws.Path{"iam", "nodes", "statements", "BannerPublish"}, kaws.Map{
		"Action":   "sns:Publish",
		"Resource": kaws.Map{"$output": "banner.TopicArn"},
	})
	response.Put(kaws.Path{"stacks", "banner"}, kaws.Map{
		"resources": kaws.Map{"Topic": kaws.Map{
			"Type":       "AWS::SNS::Topic",
			"Properties": kaws.Map{"DisplayName": own.Text},
		}},
		"outputs": kaws.Map{"TopicArn": kaws.Map{"Value": kaws.Map{"Ref": "Topic"}}},
	})
	response.Put(kaws.Path{"manifests", "banner", "objects", "links"}, kaws.Map{
		"apiVersion": "v1",
		"kind":       "ConfigMap",
		"metadata":   kaws.Map{"name": "banner", "namespace": "kube-public"},
		"data":       own.Links,
	})
	return response, nil
}

// greet adds the greeting of one group, and serves it where there is a port.
func greet(response *kaws.Response, request *kaws.Request, group string) error {
	var own settings
	if err := request.SettingsFor(group).Decode(&own); err != nil {
		return err
	}
	var in cluster
	if err := request.Cluster.Decode(&in); err != nil {
		return err
	}
	place := fmt.Sprintf("This is %s of cluster %s in %s.", kaws.Node("group"), in.Name, in.Region)
	response.Put(kaws.Path{"machines", group, "files"}, kaws.Map{
		"/etc/motd.d/banner": kaws.Map{"content": fmt.Sprintf("%s\n%s\n", own.Text, place)},
		"/etc/banner/token":  kaws.Map{"content": kaws.Secret(request, "token"), "mode": "0600"},
	})
	if own.Port == nil {
		return nil
	}
	response.Put(kaws.Path{"machines", group, "units", "banner.service"}, kaws.Map{
		"content": fmt.Sprintf(unit, in.Name, *own.Port),
	})
	response.Put(kaws.Path{"securityGroups", group, "ingress", "banner"}, kaws.Map{
		"protocol": "tcp",
		"port":     own.Port,
		"from":     kaws.Map{"cidr": in.Network.VPC.CIDR},
	})
	return nil
}

// render makes a file of the greeting, and says so where there is none.
func render(request *kaws.Request) (*kaws.Response, error) {
	var own settings
	if err := request.Plugin.Settings.Decode(&own); err != nil {
		return nil, err
	}
	response := new(kaws.Response)
	response.Artifact("banner.txt", own.Text+"\n")
	if own.Text == "" {
		response.Warning(kaws.Finding{
			Code:    "silent",
			Message: "The greeting is empty.",
			Help:    "set settings.text, or turn the plugin off",
		})
	}
	return response, nil
}
