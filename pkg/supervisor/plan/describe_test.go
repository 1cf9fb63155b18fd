package plan

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The keys are those that scripts rely on.
func TestDescription(t *testing.T) {
	first := writer("", "root/src/a.go", "root/src/a.go", "root", "other")
	first.Agent, first.Role = "coder", "content-modification"
	p := planned(t, first, reader("look:edit", "root/docs"), writer("edit", "root/src/*.go"))
	d := p.Describe(Circumstances{Root: "/root", Jobs: 3, Usual: map[string]time.Duration{"coder": 3 * time.Second}})
	text, err := json.MarshalIndent(d, "", " ")
	require.NoError(t, err)
	assert.JSONEq(t, `{
		"tasks": [
			{"id": "1", "index": 0, "agent": "coder", "role": "content-modification", "effect": "writes",
				"targets": ["src/a.go", ".", "/other"], "needs": [], "priority": 0, "waits_for": [], "stage": 1},
			{"id": "look", "index": 1, "agent": "", "role": "information-gathering", "effect": "reads",
				"targets": ["docs"], "needs": ["edit"], "priority": 0, "waits_for": [
					{"id": "edit", "reason": "needs", "paths": []}], "stage": 3},
			{"id": "edit", "index": 2, "agent": "", "role": "", "effect": "writes",
				"targets": ["src/*.go"], "needs": [], "priority": 0, "waits_for": [
					{"id": "1", "reason": "both-write", "paths": ["src/*.go", "src/a.go"]}], "stage": 2}
		],
		"stages": [["1"], ["edit"], ["look"]],
		"summary": {"tasks": 3, "stages": 3, "jobs": 3, "peak": 1, "longest_chain": ["1", "edit", "look"],
			"order": ["1", "edit", "look"], "estimate_s": 9, "estimate_known": 1}
	}`, string(text))
}

func TestSummary(t *testing.T) {
	slow, urgent := writer("slow", "x"), writer("urgent", "y")
	slow.Agent, urgent.Agent, urgent.Priority = "slow", "slow", 1
	p := planned(t, writer("a", "a"), writer("b", "a"), writer("c", "a"), slow, urgent)
	s := p.Describe(Circumstances{Jobs: 2}).Summary
	assert.Equal(t, []string{"a", "b", "c"}, s.LongestChain)
	assert.Equal(t, []string{"urgent", "a", "b", "slow", "c"}, s.Order)
	assert.Equal(t, 2, s.Peak)
	assert.Nil(t, s.Seconds)
	usual := map[string]time.Duration{"slow": 10 * time.Second, "": time.Second}
	s = p.Describe(Circumstances{Jobs: 9, Usual: usual}).Summary
	assert.Equal(t, []string{"slow"}, s.LongestChain)
	assert.InDelta(t, 10, *s.Seconds, 0.001)
	assert.Equal(t, 3, s.Peak)
	s = p.Describe(Circumstances{Jobs: 1, Usual: usual}).Summary
	assert.InDelta(t, 23, *s.Seconds, 0.001)
	assert.Equal(t, 5, s.Known)
}

func TestStagesOfPhases(t *testing.T) {
	tasks := []Task{writer("w", "a"), reader("r", "b"), writer("v", "a"), reader("s:r", "b")}
	p, err := New(tasks, Options{Phases: true})
	require.NoError(t, err)
	d := p.Describe(Circumstances{Jobs: 4})
	assert.Equal(t, [][]string{{"r"}, {"s"}, {"w"}, {"v"}}, d.Stages)
	assert.Equal(t, []string{"r", "s", "w", "v"}, d.Summary.LongestChain)
	assert.Equal(t, []Blame{{ID: "r", Reason: Phase, Paths: []string{}}, {ID: "s", Reason: Phase, Paths: []string{}}},
		d.Tasks[0].WaitsFor)
	p, err = New([]Task{writer("w", "a"), reader("r:w", "b")}, Options{Phases: true})
	require.NoError(t, err)
	assert.Empty(t, p.Waits(0), "there is nobody to wait for")
}

// The name of a task without an id is not the id of another.
func TestNames(t *testing.T) {
	p := planned(t, writer(""), writer("1"), writer(""))
	assert.Equal(t, []string{"#1", "1", "#3"}, p.Describe(Circumstances{}).Summary.Order)
}
