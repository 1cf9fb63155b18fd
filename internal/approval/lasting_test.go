package approval

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/approval/rules"
	"qq/pkg/tool"
)

// list parses rules.
func list(t testing.TB, texts ...string) (found []rules.Rule) {
	t.Helper()
	for _, text := range texts {
		r, err := rules.Parse(text)
		require.NoError(t, err)
		found = append(found, r)
	}
	return found
}

func shell(command string) tool.Intent {
	return tool.Intent{Tool: "run_pty_cmd", Effect: tool.Executes, Risk: tool.High, Command: command, Summary: command}
}

func edits(file string) tool.Intent {
	return tool.Intent{Tool: "edit_file", Effect: tool.Writes, Risk: tool.Medium, Paths: []string{file}, Summary: file}
}

func TestJudgePatterns(t *testing.T) {
	p := Policy{Root: "/work", Allow: list(t, "run_pty_cmd(git log*)", "edit_file(src/**)", "edit_file(sub/a)"),
		Deny: list(t, "run_pty_cmd(git push*)", "edit_file(src/secret/**)", "read_file(src/secret/**)")}
	special := edits("src/.env")
	special.Special = true
	read := tool.Intent{Tool: "read_file", Risk: tool.Low, Paths: []string{"src/secret/a"}}
	auto := p
	auto.Mode = Auto
	whole := p
	whole.Allow = append(list(t, "run_pty_cmd"), p.Allow...)
	for _, c := range []struct {
		policy Policy
		in     tool.Intent
		dir    string
		want   Verdict
		why    string
	}{
		{p, shell("git log -5"), "", Allowed, "run_pty_cmd(git log*)"},
		{p, shell("git log; ls"), "", Asked, ""},
		{p, shell("git log; git push"), "", Refused, "the rule run_pty_cmd(git push*) denies it"},
		{whole, shell("git log"), "", Allowed, ""},
		{whole, shell("git log; ls"), "", Allowed, ""},
		{whole, shell("git -C . push"), "", Refused, "the rule run_pty_cmd(git push*) denies it"},
		{auto, shell("sh -c 'git push'"), "", Refused, "the rule run_pty_cmd(git push*) denies it"},
		{auto, shell("git log"), "", Allowed, ""},
		{p, edits("src/a"), "", Allowed, "edit_file(src/**)"},
		{p, edits("src/a"), "/work", Allowed, "edit_file(src/**)"},
		{p, edits("src/a"), "/work/sub", Asked, ""},
		{p, edits("a"), "/work/sub", Allowed, "edit_file(sub/a)"},
		{p, edits("src/a"), "/elsewhere", Asked, ""},
		{p, edits("secret/a"), "/work/src", Refused, "the rule edit_file(src/secret/**) denies it"},
		{p, special, "", Asked, ""},
		{p, read, "", Refused, "the rule read_file(src/secret/**) denies it"},
	} {
		got, why := c.policy.Judge(c.in, c.dir)
		assert.Equal(t, c.want, got, "%+v in %q", c.in, c.dir)
		assert.Equal(t, c.why, why, "%+v in %q", c.in, c.dir)
	}
	doubted := shell("git log")
	doubted.Doubt = "config sets core.pager"
	assert.Equal(t,
		"it needs an approval and nobody can be asked here: no pattern can allow it (config sets core.pager), "+
			"allow it with --allow run_pty_cmd, or everything with --auto-approve", nobody(doubted, p.Allow))
}

// The tool learns by which rule its call was allowed.
func TestGateGrantsTheRule(t *testing.T) {
	within := list(t, "run_pty_cmd(go test*)", "run_pty_cmd(go vet*)")
	for name, c := range map[string]struct {
		cfg  GateConfig
		in   tool.Intent
		rule string
		err  string
	}{
		"a rule": {GateConfig{Policy: Policy{Allow: list(t, "run_pty_cmd(git log*)")}}, shell("git log"),
			"run_pty_cmd(git log*)", ""},
		"the whole tool": {GateConfig{Policy: Policy{Allow: list(t, "run_pty_cmd")}}, shell("git log"), "", ""},
		"a lasting rule": {GateConfig{}, shell("ls"), "run_pty_cmd(ls)", ""},
		"within": {GateConfig{Policy: Policy{Mode: Auto}, Within: within}, shell("go vet"),
			"run_pty_cmd(go vet*)", ""},
		"outside": {GateConfig{Policy: Policy{Mode: Auto}, Within: within}, shell("go vet; ls"), "",
			"the definition of this agent gives it only run_pty_cmd(go test*), run_pty_cmd(go vet*)"},
		"without": {GateConfig{Policy: Policy{Mode: Auto}, Without: list(t, "run_pty_cmd(rm*)")}, shell("ls; rm x"), "",
			"the definition of this agent takes run_pty_cmd(rm*) from it"},
		"another tool": {GateConfig{Policy: Policy{Mode: Auto}, Within: within}, edits("a"), "", ""},
		"a denied host": {GateConfig{Policy: Policy{Mode: Auto, Deny: list(t, "web_fetch(x.org)")}},
			tool.Intent{Tool: "web_fetch", Risk: tool.Medium, Host: "y.org"}, "web_fetch(x.org)", ""},
	} {
		c.cfg.Offered = tool.Set{fake{name: c.in.Tool, plan: intends(c.in)}}
		c.cfg.Approver = approverFunc(func(_ context.Context, in tool.Intent) tool.Decision {
			assert.Equal(t, "ls", in.Command, name)
			return tool.Decision{Allowed: true, Rule: "run_pty_cmd(ls)"}
		})
		_, ctx, err := admit(NewGate(c.cfg), c.in.Tool)
		if c.err != "" {
			assert.EqualError(t, err, c.err, name)
			continue
		}
		require.NoError(t, err, name)
		got, ok := tool.Granted(ctx)
		assert.True(t, ok, name)
		assert.Equal(t, c.rule, got.Rule, name)
	}
}

// kept is a Lasting.
type kept struct {
	mu    sync.Mutex
	rules map[string][]rules.Rule
	fails bool
}

func (k *kept) Rules(folder string) []rules.Rule {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.rules[folder]
}

func (k *kept) Add(folder string, r rules.Rule) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.fails {
		k.rules[folder] = append(k.rules[folder], r)
	}
	return !k.fails
}

// TestSuspected: what a denying rule cannot exclude is asked about, whatever else allows it.
func TestSuspected(t *testing.T) {
	deny := list(t, "run_pty_cmd(git push*)")
	offered := tool.Set{fake{name: "run_pty_cmd", plan: intends(shell("git lg"))}}
	lasting := &kept{rules: map[string][]rules.Rule{"/work": list(t, "run_pty_cmd(git lg)")}}
	for name, policy := range map[string]Policy{
		"asks":             {Root: "/work", Deny: deny},
		"auto":             {Root: "/work", Deny: deny, Mode: Auto},
		"the tool":         {Root: "/work", Deny: deny, Allow: list(t, "run_pty_cmd")},
		"the same command": {Root: "/work", Deny: deny, Allow: list(t, "run_pty_cmd(git lg)")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHearing(QueueConfig{Policy: policy, Lasting: lasting}, saying{after: 1, answer: Session},
					saying{after: 1, answer: No})
				q := tool.Question{Intent: shell("git lg")}
				assert.True(t, h.Needs(q))
				assert.True(t, h.Queue.Ask(t.Context(), q).Allowed)
				assert.False(t, h.Queue.Ask(t.Context(), q).Allowed, "asked each time")
				const shown = "git lg (the rule run_pty_cmd(git push*) may deny it)"
				assert.Equal(t, []string{shown, shown}, h.shown)
				assert.True(t, h.events[0].Intent.Special)
			})
			alone := NewQueue(QueueConfig{Policy: policy, Lasting: lasting})
			d := alone.Ask(t.Context(), tool.Question{Intent: shell("git lg")})
			assert.Contains(t, d.Reason, "the rule run_pty_cmd(git push*) may deny it, which its words do not tell")

			none := NewGate(GateConfig{Offered: offered, Policy: policy})
			_, _, err := admit(none, "run_pty_cmd")
			assert.ErrorContains(t, err, "may deny it, which its words do not tell, and nobody can be asked here")
		})
	}
	auto := Policy{Mode: Auto}
	restricted := NewGate(GateConfig{Offered: offered, Policy: auto, Without: deny,
		Approver: approverFunc(func(ctx context.Context, in tool.Intent) tool.Decision {
			return NewQueue(QueueConfig{Policy: auto}).Ask(ctx, tool.Question{Intent: in})
		})})
	_, _, err := admit(restricted, "run_pty_cmd")
	assert.ErrorContains(t, err, "may deny it", "the root hears what the definition suspects")
	assert.Equal(t, Refused, func() Verdict {
		v, _ := Policy{Mode: Deny, Allow: list(t, "run_pty_cmd")}.Judge(suspected(shell("git lg"), deny), "")
		return v
	}())
}

// TestQueueLasting: the answer for the folder makes a rule for exactly the call. It answers for the
// person from then on, and settles the question that waits behind.
func TestQueueLasting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kept{rules: map[string][]rules.Rule{}}
		h := newHearing(QueueConfig{Policy: Policy{Root: "/work"}, Lasting: k}, saying{after: 1, answer: Folder})
		q := tool.Question{Intent: shell("git log")}
		assert.True(t, h.Needs(q))
		var second tool.Decision
		h.wg.Go(func() { second = h.Queue.Ask(t.Context(), q) })
		lasting := tool.Decision{Allowed: true, Rule: "run_pty_cmd(git log)"}
		first := h.Queue.Ask(t.Context(), q)
		h.wg.Wait()
		shown := lasting
		shown.Shown = true
		assert.ElementsMatch(t, []tool.Decision{shown, lasting}, []tool.Decision{first, second})
		assert.Len(t, h.shown, 1)
		assert.Equal(t, map[string][]rules.Rule{"/work": list(t, "run_pty_cmd(git log)")}, k.rules)
		assert.False(t, h.Needs(q))

		for _, other := range []tool.Question{
			{Intent: shell("git log -5")}, {Intent: shell("git log"), Folder: "/work/sub"},
			{Intent: tool.Intent{Tool: "run_pty_cmd", Risk: tool.High, Command: "git log", Dir: "sub"}},
			{Intent: tool.Intent{Tool: "run_pty_cmd", Risk: tool.High, Command: "git log", Doubt: "a pager"}},
			{Intent: tool.Intent{Tool: "run_pty_cmd", Risk: tool.High, Command: "git log", Special: true}},
		} {
			assert.True(t, h.Needs(other), "%+v", other)
		}
		assert.Equal(t, lasting, NewQueue(QueueConfig{Policy: Policy{Root: "/work"}, Lasting: k}).Ask(t.Context(), q),
			"also where nobody can be asked")
		denies := QueueConfig{Policy: Policy{Root: "/work", Deny: list(t, "run_pty_cmd(git*)")}, Lasting: k}
		assert.False(t, NewQueue(denies).Ask(t.Context(), q).Allowed)
	})
}

// TestQueueOffers: a lasting rule is offered for what it can say exactly.
func TestQueueOffers(t *testing.T) {
	q := NewQueue(QueueConfig{Lasting: &kept{}})
	special := edits(".env")
	special.Special = true
	for in, want := range map[*tool.Intent]string{
		ptr(shell("git  log")): "run_pty_cmd(git log)", ptr(edits("a/b")): "edit_file(a/b)",
		ptr(tool.Intent{Tool: "web_fetch", Host: "x.org"}): "web_fetch(x.org)",
		ptr(shell("git log; ls")):                          "", &special: "", ptr(shell("echo \u202e")): "",
		ptr(shell("echo " + string(make([]byte, 300)))): "", ptr(tool.Intent{Tool: "delegate_task"}): "",
	} {
		assert.Equal(t, want, q.offer(*in), "%+v", in)
	}
	assert.Empty(t, NewQueue(QueueConfig{}).offer(shell("ls")), "nowhere to keep it")
}

func ptr(in tool.Intent) *tool.Intent { return &in }

// TestQueueCannotKeep: a rule that cannot be kept, or was not offered, is an answer for once.
func TestQueueCannotKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		always := saying{after: 1, answer: Folder}
		h := newHearing(QueueConfig{Lasting: &kept{fails: true}}, always, always)
		assert.Equal(t, yes, h.Queue.Ask(t.Context(), tool.Question{Intent: shell("ls")}))
		assert.Equal(t, yes, h.Queue.Ask(t.Context(), tool.Question{Intent: shell("ls; ls")}))
		assert.Equal(t, "once", h.decided()["ls"])
	})
}

// TestQueueFolder: the folder of an agent is the real one, whatever its name leads to later.
func TestQueueFolder(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(root, "other"), 0o700))
	require.NoError(t, os.Symlink("other", filepath.Join(root, "src")))
	q := NewQueue(QueueConfig{Policy: Policy{Root: root, Allow: list(t, "edit_file(src/**)")}})
	assert.True(t, q.Ask(t.Context(), tool.Question{Intent: edits("src/a")}).Allowed)
	assert.False(t, q.Ask(t.Context(), tool.Question{Dir: "src", Intent: edits("a")}).Allowed)
	assert.False(t, q.Ask(t.Context(), tool.Question{Dir: "src", Folder: root + "/other", Intent: edits("a")}).Allowed)
}
