package kaws_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	kaws "github.com/kaws/kaws/sdk/go"
)

// The environment variable that names a test's plugin: this binary is it, run once more as kaws runs a program.
const which = "KAWS_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if handlers, is := programs[os.Getenv(which)]; is {
		kaws.Main(handlers)
	}
	os.Exit(m.Run())
}

func says(what string) kaws.Handler {
	return func(request *kaws.Request) (*kaws.Response, error) {
		return &kaws.Response{Value: what + " " + request.Name}, nil
	}
}

func puts(path kaws.Path, value any) kaws.Handlers {
	return kaws.Handlers{Render: func(*kaws.Request) (*kaws.Response, error) {
		response := new(kaws.Response)
		response.Put(path, value)
		return response, nil
	}}
}

var programs = map[string]kaws.Handlers{
	"none": {},
	"nil":  {Render: func(*kaws.Request) (*kaws.Response, error) { return nil, nil }},
	"all": {
		Initialise: says("initialise"),
		Render:     says("render"),
		Deploy:     says("deploy"),
		Validate:   says("validate"),
		Events:     map[string]kaws.Handler{"after-deploy": says("after")},
		Lookups:    map[string]kaws.Handler{"ami": says("lookup")},
	},
	"noisy": {Render: func(*kaws.Request) (*kaws.Response, error) {
		fmt.Println("noise")
		kaws.Log("info", "grüezi <b>")
		return nil, nil
	}},
	"fails": {Render: func(*kaws.Request) (*kaws.Response, error) {
		return nil, errors.New("no <greeting>")
	}},
	"panics": {Render: func(request *kaws.Request) (*kaws.Response, error) {
		var port *int
		return &kaws.Response{Value: *port}, nil
	}},
	"no number": puts(kaws.Path{"a"}, math.NaN()),
	"canonical": {Render: func(*kaws.Request) (*kaws.Response, error) {
		response := new(kaws.Response)
		response.Put(kaws.Path{"z"}, "ü <&>")
		response.Put(kaws.Path{"a", "b"}, struct {
			Big uint64 `json:"big"`
		}{math.MaxUint64})
		response.Artifact("x", "<\n")
		response.Warning(kaws.Finding{Code: "c", Message: "m"})
		return response, nil
	}},
}

func request(more string) string {
	return `{"apiVersion":"kaws/v1","kaws":"0.1.0","plugin":{"name":"acme","settings":{"text":"Hi"}}` + more + `}`
}

const render = `,"stage":"render"`

// run runs a test's plugin, and returns its exit code, standard output and log.
func run(t *testing.T, program, asked string, environment ...string) (int, string, string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(self)
	command.Dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(command.Dir, "plugin.yaml"), []byte("name: acme\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	command.Env = append(environment, which+"="+program)
	command.Stdin = strings.NewReader(asked)
	var log strings.Builder
	command.Stderr = &log
	out, err := command.Output()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return command.ProcessState.ExitCode(), string(out), log.String()
}

func expect(t *testing.T, got, expected any) {
	t.Helper()
	if !reflect.DeepEqual(got, expected) {
		t.Errorf("got      %#v\nexpected %#v", got, expected)
	}
}

func TestEachQuestionHasItsFunction(t *testing.T) {
	for asked, expected := range map[string]string{
		`,"stage":"initialise"`:          "initialise ",
		`,"stage":"render"`:              "render ",
		`,"stage":"deploy","name":"a"`:   "deploy a",
		`,"stage":"validate","name":"b"`: "validate b",
		`,"event":"after-deploy"`:        "after ",
		`,"name":"ami"`:                  "lookup ami",
	} {
		_, said, _ := run(t, "all", request(asked))
		expect(t, said, `{"apiVersion":"kaws/v1","value":"`+expected+`"}`+"\n")
	}
}

func TestWhatNoFunctionIsForHasAnEmptyAnswer(t *testing.T) {
	for _, program := range []string{"none", "nil"} {
		code, said, _ := run(t, program, request(render))
		expect(t, code, 0)
		expect(t, said, `{"apiVersion":"kaws/v1"}`+"\n")
	}
	_, said, _ := run(t, "all", request(`,"event":"before-nodeup"`))
	expect(t, said, `{"apiVersion":"kaws/v1"}`+"\n")
}

func TestAnswersAreCanonical(t *testing.T) {
	_, said, _ := run(t, "canonical", request(render))
	expect(t, said, `{"apiVersion":"kaws/v1","artifacts":{"x":"<\n"},`+
		`"contribution":{"a":{"b":{"big":18446744073709551615}},"z":"ü <&>"},`+
		`"findings":[{"code":"c","message":"m","severity":"warning"}]}`+"\n")
}

func TestWhateverIsPrintedGoesToTheLog(t *testing.T) {
	_, said, log := run(t, "noisy", request(render))
	expect(t, said, `{"apiVersion":"kaws/v1"}`+"\n")
	expect(t, log, "noise\n"+`{"level":"info","message":"grüezi <b>"}`+"\n")
}

func TestAFailureIsSaid(t *testing.T) {
	code, said, _ := run(t, "fails", request(render))
	expect(t, code, 1)
	expect(t, said, `{"code":"error","msg":"no <greeting>"}`+"\n")
}

func TestAPanicIsSaidWithItsPlace(t *testing.T) {
	code, said, log := run(t, "panics", request(render))
	expect(t, code, 1)
	var failure struct{ Code, Msg, Details string }
	if err := json.Unmarshal([]byte(said), &failure); err != nil {
		t.Fatal(err)
	}
	expect(t, failure.Code, "panic")
	expect(t, strings.Contains(failure.Msg, "nil pointer"), true)
	expect(t, strings.HasPrefix(failure.Details, "at kaws_test.go:"), true)
	expect(t, strings.Contains(log, "goroutine"), true)
}

func TestWhatIsNoJSONIsAFailure(t *testing.T) {
	code, said, _ := run(t, "no number", request(render))
	expect(t, code, 1)
	expect(t, strings.Contains(said, "what is put is no JSON"), true)
}

func TestWhatIsNoRequestIsAFailure(t *testing.T) {
	for asked, words := range map[string]string{
		"":                          "cannot be read",
		"[]":                        "cannot be read",
		"{}":                        `asked in \"\", and this plugin speaks \"kaws/v1\"`,
		`{"apiVersion": "kaws/v2"}`: `asked in \"kaws/v2\"`,
		request(`,"groups": 1`):     "cannot be read",
	} {
		code, said, _ := run(t, "all", asked)
		expect(t, code, 1)
		if !strings.Contains(said, words) {
			t.Errorf("%s has no %s", said, words)
		}
	}
}

func TestAProgramTellsWhatItIs(t *testing.T) {
	code, said, _ := run(t, "all", "", "KAWS_COMMAND=INFO")
	expect(t, code, 0)
	expect(t, said, "name: acme\n")
}

func TestARequestIsReadWhole(t *testing.T) {
	asked, err := kaws.ReadRequest([]byte(`{
		"apiVersion": "kaws/v1", "stage": "render", "new": 1,
		"plugin": {"name": "acme", "settings": {"a": 1}, "poolSettings": {"gpu": {"a": 2}}, "nodes": ["pool:gpu"]},
		"plugins": {"dex": {"name": "dex", "version": "2.0.0"}},
		"groups": {"pool:gpu": {"group": "pool:gpu", "pool": "gpu", "os": "al2023"}, "etcd": {"pool": null}},
		"artifacts": {"x": {"sha256": "00", "mode": "0644"}}
	}`))
	if err != nil {
		t.Fatal(err)
	}
	expect(t, asked.Groups["pool:gpu"].OS, "al2023")
	expect(t, asked.Artifacts["x"], kaws.Made{SHA256: "00", Mode: "0644"})
	expect(t, asked.Plugins["dex"].Version, "2.0.0")
	for group, expected := range map[string]int{"pool:gpu": 2, "pool:general": 1, "gpu": 1} {
		var own struct{ A int }
		if err := asked.SettingsFor(group).Decode(&own); err != nil {
			t.Fatal(err)
		}
		expect(t, own.A, expected)
	}
	untold := 7
	expect(t, asked.Model.Decode(&untold), error(nil))
	expect(t, untold, 7)
}

func TestSecretsAreNotShown(t *testing.T) {
	asked, err := kaws.ReadRequest([]byte(request(`,"secrets":{"token":"hunter2"}`)))
	expect(t, err, error(nil))
	expect(t, asked.Secrets["token"], "hunter2")
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		expect(t, strings.Contains(fmt.Sprintf(verb, *asked), "hunter2"), false)
	}
}

func TestMapsMergeAndOfAnythingElseTheLastCounts(t *testing.T) {
	mine := kaws.Map{"b": "x", "c": []string{"y"}}
	response := new(kaws.Response)
	response.Put(kaws.Path{"a"}, mine)
	response.Put(kaws.Path{"a", "c"}, []string{"z"})
	response.Put(nil, kaws.Map{"a": kaws.Map{"d": true}})
	response.Put(kaws.Path{"a", "b", "f"}, nil)
	expect(t, response.Contribution, kaws.Map{"a": kaws.Map{
		"b": kaws.Map{"f": nil}, "c": []any{"z"}, "d": true,
	}})
	expect(t, mine, kaws.Map{"b": "x", "c": []string{"y"}})
}

func TestFilesAreTextWhereTheyCanBe(t *testing.T) {
	response := new(kaws.Response)
	response.Artifact("text", "ü")
	response.Artifact("bytes", "\xff")
	text, err := json.Marshal(response.Artifacts)
	expect(t, err, error(nil))
	expect(t, string(text), `{"bytes":{"base64":"/w=="},"text":"ü"}`)
}

func TestAFatalFindingStopsTheRun(t *testing.T) {
	response := new(kaws.Response)
	response.Fatal(kaws.Finding{Code: "loud", Message: "Too much."})
	expect(t, response.Findings, []kaws.Finding{{Code: "loud", Message: "Too much.", Severity: "fatal"}})
}

func TestPlaceholdersAreWhatNodesFillIn(t *testing.T) {
	asked := &kaws.Request{Plugin: kaws.Plugin{Name: "acme"}}
	expect(t, kaws.Secret(asked, "token"), "@{secret acme/token}")
	expect(t, kaws.Output("network.VpcId"), "@{output network.VpcId}")
	expect(t, kaws.Node("zone"), "@{node zone}")
}
