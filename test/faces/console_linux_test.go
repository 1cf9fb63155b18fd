package faces

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"qq/internal/standin"
)

// TestConsoleCost: with 200 children at work below the console it writes at most 20 kB a second, what a person types is
// on the screen at once, and Ctrl-C ends the answer and not the console.
func TestConsoleCost(t *testing.T) {
	var tasks []map[string]string
	for i := range 200 {
		tasks = append(tasks, map[string]string{"agent": "explorer", "task": fmt.Sprintf("[[look]] at part %d, 漢字", i)})
	}
	slow := &standin.Fault{BeforeFirst: 2 * time.Second} // so they work for most of a minute
	w := newWorld(t,
		standin.Script{Start: "[[hand on]]", Text: "I hand this on.\n" +
			call("run_parallel_tasks", map[string]any{"tasks": tasks[:100]}) +
			call("run_parallel_tasks", map[string]any{"tasks": tasks[100:]})},
		standin.Script{Start: "[[look]]", Fault: slow, Text: call("list_files", map[string]string{"pattern": "[[then]]"})},
		standin.Script{Start: "[[then]]", Fault: slow, Text: call("list_files", map[string]string{"pattern": "[[look]]"})},
		standin.Script{Start: "[[hello]]", Text: "Hello there."})
	w.env = append(w.env, "QQ_MAX_PARALLEL=200")
	s := w.sit(120, 40)
	s.shows("/help lists the commands")
	s.press("[[hand on]]\r")
	s.shows("200 at work")
	s.cost(4*time.Second, 20_000, 4) // it is the root: most of what it computes is not for the screen
	typed := "typed while 200 are at work 漢"
	begun := time.Now()
	s.press(typed)
	s.shows("> " + typed)
	assert.Less(t, time.Since(begun), 2*time.Second)
	s.resize(60, 20)
	s.shows("200 at work")
	s.press("\x15\x03")
	s.shows("stopped by Ctrl-C")
	s.gone("at work")
	assert.NotContains(t, s.text(), "warning", "that the children ended too, is no news")
	s.press("/session new\r[[hello]]\r")
	s.shows("Hello there.")
	s.press("\x04")
	assert.Zero(t, s.wait())
	assert.Equal(t, 1, strings.Count(s.text(), "Hello there."))
}
