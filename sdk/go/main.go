package kaws

// Which function answers what, and the program around them.

import (
	"fmt"
	"io"
	"os"
	"path"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
)

// A Handler answers a request. A nil response is nothing to add; an error is said to the user and ends the run.
type Handler func(*Request) (*Response, error)

// Handlers are the functions of a plugin. What none is there for has an empty answer.
type Handlers struct {
	// Initialise adds to the model.
	Initialise Handler
	// Render adds files, and to machines, stacks, manifests and values.
	Render Handler
	// Deploy runs the plugin's steps; Request.Name says which.
	Deploy Handler
	// Validate runs the plugin's checks; Request.Name says which.
	Validate Handler
	// Events are for events, by name, as after-deploy.
	Events map[string]Handler
	// Lookups answer lookups, by name, with Response.Value.
	Lookups map[string]Handler
}

// Main reads a request, has it answered, and ends the program.
func Main(handlers Handlers) {
	out := os.Stdout
	// Standard output is the answer's alone: whatever else is printed goes to the log.
	os.Stdout = os.Stderr
	os.Exit(handlers.run(os.Stdin, out))
}

// run returns the exit code.
func (h Handlers) run(in *os.File, out io.Writer) int {
	aboutItself := os.Getenv("KAWS_COMMAND") == "INFO" || len(os.Args) > 1 && os.Args[1] == "metadata"
	if !aboutItself && isTerminal(in) {
		fmt.Fprintln(os.Stderr, "This is a plugin of kaws, asked on its standard input: try `kaws plugin run`.")
		return 1
	}
	answer := h.answer
	if aboutItself {
		answer = manifest
	}
	said, why := answer(in)
	if why != nil {
		said, _ = encoded(why)
	}
	if _, err := out.Write(said); err != nil || why != nil {
		return 1
	}
	return 0
}

// manifest returns the plugin.yaml that lies beside the program: kaws starts it in its folder.
func manifest(io.Reader) ([]byte, *failure) {
	text, err := os.ReadFile("plugin.yaml")
	return text, failed(err)
}

func isTerminal(file *os.File) bool {
	about, err := file.Stat()
	return err == nil && about.Mode()&os.ModeCharDevice != 0
}

// A failure is what a program says that has no answer.
type failure struct {
	Code    string `json:"code"`
	Details string `json:"details,omitempty"`
	Msg     string `json:"msg"`
}

func failed(err error) *failure {
	if err == nil {
		return nil
	}
	return &failure{Code: "error", Msg: err.Error()}
}

// answer returns what a program says to the request that it reads.
func (h Handlers) answer(in io.Reader) (said []byte, why *failure) {
	defer func() {
		if panicked := recover(); panicked != nil {
			os.Stderr.Write(debug.Stack())
			why = &failure{Code: "panic", Details: places(), Msg: fmt.Sprint(panicked)}
		}
	}()
	document, err := io.ReadAll(in)
	if err != nil {
		return nil, failed(err)
	}
	request, err := ReadRequest(document)
	if err != nil {
		return nil, failed(err)
	}
	response, err := h.handler(request)(request)
	if err != nil {
		return nil, failed(err)
	}
	if response == nil {
		response = new(Response)
	}
	said, err = response.document()
	return said, failed(err)
}

func (h Handlers) handler(request *Request) Handler {
	stages := map[string]Handler{
		"initialise": h.Initialise,
		"render":     h.Render,
		"deploy":     h.Deploy,
		"validate":   h.Validate,
	}
	var handler Handler
	switch {
	case request.Stage != "":
		handler = stages[request.Stage]
	case request.Event != "":
		handler = h.Events[request.Event]
	default:
		handler = h.Lookups[request.Name]
	}
	if handler == nil {
		return func(*Request) (*Response, error) { return nil, nil }
	}
	return handler
}

// places returns where the plugin's own code panicked: the innermost three calls.
func places() string {
	here := reflect.TypeOf(Handlers{}).PkgPath() + "."
	counters := make([]uintptr, 64)
	frames := runtime.CallersFrames(counters[:runtime.Callers(1, counters)])
	var own []string
	for frame, more := frames.Next(); more && len(own) < 3; frame, more = frames.Next() {
		name := frame.Function
		if !strings.HasPrefix(name, "runtime.") && !strings.HasPrefix(name, here) {
			own = append(own, fmt.Sprintf("%s:%d in %s", path.Base(frame.File), frame.Line, name))
		}
	}
	return "at " + strings.Join(own, ", from ")
}
