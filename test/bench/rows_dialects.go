package main

import (
	"context"
	"time"
)

// dialects are how qq speaks to model servers, with what stands behind the address of the stand-in for each.
var dialects = []struct{ kind, path string }{
	{"ollama", ""}, {"openai", "/v1"}, {"anthropic", "/v1"}, {"gemini", "/v1beta"},
}

// moreCPU is how much more a prompt may cost through another dialect than through Ollama's.
const moreCPU = 250 * time.Microsecond

// measureDialects measures one question to a model that answers at once, through each dialect in turn.
func measureDialects(ctx context.Context, b *bench) ([]line, error) {
	dir, env, done, err := b.home()
	if err != nil {
		return nil, err
	}
	defer done()
	var commands []func() (used, error)
	for _, d := range dialects {
		env = append(env, "QQ_SERVER_bench"+d.kind+"="+d.kind+" "+b.url+d.path)
	}
	for _, d := range dialects {
		c := command{program: b.bin["qq"], dir: dir, env: env,
			args: []string{"--model", "bench" + d.kind + ":fast", "say", "something"}}
		commands = append(commands, func() (used, error) { return c.run(ctx) })
	}
	us, err := b.interleave(b.pick(200, 10), commands...)
	if err != nil {
		return nil, err
	}
	var lines []line
	for i, d := range dialects[1:] {
		// Differences within a round: the load of the machine changes between rounds.
		differences := make([]time.Duration, len(us[0]))
		for round := range differences {
			differences[round] = us[i+1][round].cpu - us[0][round].cpu
		}
		lines = append(lines, line{what: "one prompt through " + d.kind + ": CPU, against one through ollama",
			qq: milliseconds(median(column(us[i+1], cpu))), yard: milliseconds(median(column(us[0], cpu))),
			value: float64(median(differences)) / 1e6, limit: float64(moreCPU) / 1e6, unit: "ms more"})
	}
	return lines, nil
}
