package task_test

import (
	"encoding/json"
	"fmt"
	"os"

	"qq/pkg/task"
)

func ExampleDecode() {
	t, err := task.Decode([]byte(`{"task": "Review the change", "agent": "reviewer", "timeout": 60}`))
	fmt.Println(t.Text, t.Agent, t.Timeout, err)
	_, err = task.Decode([]byte(`{"task": "Review the change", "timeout": "soon"}`))
	fmt.Println(err)
	// Output:
	// Review the change reviewer 60 <nil>
	// "timeout" must be a number
}

func ExampleTask_Ended() {
	t := task.Task{Text: "Review the change", Agent: "reviewer", ID: "r1"}
	r := t.Ended(task.Timeout, "not done after 60s")
	fmt.Println(r.Success, r.Status, r.ExitCode, r.Err())

	r = t.Ended(task.Completed, "")
	r.Output = "No faults."
	enc := json.NewEncoder(os.Stdout)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		panic(err)
	}
	// Output:
	// false timeout 124 not done after 60s
	// {
	//   "task": "Review the change",
	//   "agent": "reviewer",
	//   "success": true,
	//   "output": "No faults.",
	//   "error": null,
	//   "id": "r1",
	//   "index": 0,
	//   "status": "completed",
	//   "exit_code": 0,
	//   "attempts": 0,
	//   "duration_ms": 0,
	//   "queued_ms": 0,
	//   "usage": {
	//     "input_tokens": 0,
	//     "output_tokens": 0
	//   },
	//   "truncated": false
	// }
}

func ExampleStatus() {
	fmt.Println(task.Running.Final())
	for _, s := range []task.Status{task.Completed, task.Failed, task.Timeout, task.Cancelled, task.Misused} {
		fmt.Println(s, s.Final(), s.ExitCode())
	}
	// Output:
	// false
	// completed true 0
	// failed true 1
	// timeout true 124
	// cancelled true 130
	// usage true 2
}
