package app

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"qq/internal/app/output"
	"qq/internal/doctor"
)

func (r *root) doctorCommand() *cli.Command {
	return &cli.Command{
		Name: "doctor", Usage: "what works here and what does not, with one fix per line",
		Flags: []cli.Flag{flagModel, flagCwd, flagPlain, flagQuiet, flagNoColor}, Action: r.doctor,
	}
}

func (r *root) doctor(c *cli.Context) error {
	cfg, dir, err := r.configure(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Context, 10*time.Second)
	defer cancel()
	findings := doctor.Examine(ctx, doctor.Patient{
		Version: Version(), Settings: cfg, Environ: r.env, Getenv: r.env.get, Agents: loadAgents(dir, r.env), Sessions: openStore(cfg),
	})
	if c.Bool("json") {
		err = output.WriteJSON(r.Out, findings)
	} else {
		err = r.printFindings(findings)
	}
	for _, f := range findings {
		if f.State == "bad" && err == nil {
			err = said(1)
		}
	}
	return err
}

func (r *root) printFindings(findings []doctor.Finding) error {
	marks := map[string]string{"ok": "ok", "note": "note", "bad": "BAD"}
	if r.coloured(r.Out) {
		marks = map[string]string{"ok": "\x1b[32mok\x1b[0m", "note": "\x1b[33mnote\x1b[0m", "bad": "\x1b[31mBAD\x1b[0m"}
	}
	w := tabwriter.NewWriter(r.Out, 0, 4, 2, ' ', 0)
	for _, f := range findings {
		fmt.Fprintf(w, "%s\t%s\t%s\n", marks[f.State], f.What, f.Text)
		if f.Fix != "" {
			fmt.Fprintf(w, "%s\t\tfix: %s\n", strings.Replace(marks["ok"], "ok", "  ", 1), f.Fix)
		}
	}
	return output.WriteError(w.Flush())
}
