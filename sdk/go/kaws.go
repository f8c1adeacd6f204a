// Package kaws is for plugins of kaws in Go.
//
// A plugin is functions that are told a [Request] and give a [Response]:
//
//	func main() {
//		kaws.Main(kaws.Handlers{Render: render})
//	}
//
//	func render(request *kaws.Request) (*kaws.Response, error) {
//		response := new(kaws.Response)
//		response.Artifact("hello.txt", "Hello from "+request.Plugin.Name+"\n")
//		return response, nil
//	}
//
// Not here: what a contribution may hold. `kaws plugin schema contribution` prints that.
package kaws

import (
	"fmt"
	"os"
)

// Version is the version of the contract that this package speaks.
const Version = "kaws/v1"

// Secret returns the placeholder of one of the plugin's secrets, which the node fills in. Its file needs the mode 0600.
func Secret(request *Request, name string) string {
	return fmt.Sprintf("@{secret %s/%s}", request.Plugin.Name, name)
}

// Output returns the placeholder of a stack's output, as network.VpcId, which the node fills in.
func Output(name string) string {
	return fmt.Sprintf("@{output %s}", name)
}

// Node returns the placeholder of what a node knows of itself, as group or zone.
func Node(name string) string {
	return fmt.Sprintf("@{node %s}", name)
}

// Log writes a line of the log, as Log("info", "…").
func Log(level, message string) {
	// Map keys are sorted, and texts are always JSON.
	line, _ := encoded(map[string]string{"level": level, "message": message})
	_, _ = os.Stderr.Write(line)
}
