package kaws_test

import (
	"encoding/json"
	"os"

	kaws "github.com/kaws/kaws/sdk/go"
)

func ExampleResponse_Put() {
	var response kaws.Response
	response.Put(kaws.Path{"kubelet", "nodes", "labels", "example.org/greets"}, "yes")
	response.Put(kaws.Path{"kubelet", "nodes"}, kaws.Map{"config": kaws.Map{"maxPods": 50}})
	_ = json.NewEncoder(os.Stdout).Encode(response.Contribution)
	// Output: {"kubelet":{"nodes":{"config":{"maxPods":50},"labels":{"example.org/greets":"yes"}}}}
}
