// Says on every machine whose it is. `kaws plugin schema contribution` tells what else there is to say.
package main

import "my-plugin/kaws"

type settings struct {
	Owner string `json:"owner"`
}

func main() {
	kaws.Main(kaws.Handlers{Initialise: initialise})
}

// initialise adds one file to every machine.
func initialise(request *kaws.Request) (*kaws.Response, error) {
	var own settings
	if err := request.Plugin.Settings.Decode(&own); err != nil {
		return nil, err
	}
	response := new(kaws.Response)
	greeting := kaws.Map{"content": "Ask " + own.Owner + ".\n"}
	response.Put(kaws.Path{"machines", "nodes", "files", "/etc/motd.d/my-plugin"}, greeting)
	return response, nil
}
