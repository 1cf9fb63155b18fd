// Package foreign knows the flags of GNU parallel that qq batch does not have, and what to write instead.
package foreign

import (
	"fmt"
	"strings"

	"qq/internal/app/command"
)

// flag is a flag of GNU parallel that qq batch does not have.
type flag struct {
	names string // without dashes, with spaces between them
	hint  string // what to write instead, or why there is no such flag
}

// flags returns all of them. docs/parallel.md has the same table.
func flags() []flag {
	return []flag{
		{"ungroup u line-buffer line-buffered lb latest-line ll",
			"not offered: results come whole, in the order of the input; " +
				"--output-format stream-json prints what agents do as it happens"},
		{"no-keep-order nok no-k", "not offered: results keep the order of the input"},
		{"group g", "not needed: results are never mixed"},
		{"tag-string ctag ctag-string", "write --tag: each line begins with the input"},
		{"color color-failed color-fail colour colour-failed colour-fail cf", "not offered; see --no-color"},
		{"progress", "not needed: the progress line is always there on a terminal; elsewhere write --bar"},
		{"total-jobs total", "not needed: all tasks are read before the first one starts"},
		{"max-procs P", "write -j"},
		{"jl", "write --joblog"},
		{"result res", "write --results"},
		{"output-as-files files", "write --results DIR"},
		{"silent", "write -q"},
		{"halt-on-error", "write --halt"},
		{"col-sep", "write --colsep"},
		{"dr", "write --dry-run"},
		{"verbose-command t", "write --dry-run to see the tasks, or -v to see what agents do"},
		{"retry-failed", "write --resume-failed and the same command"},
		{"arg-file", "write -i FILE, or :::: FILE"},
		{"max-args max-replace-args N", "write -n"},
		{"link xapply linkinputsource xapplyinputsource", "write :::+ between the lists"},
		{"header csv", "not needed: the head of CSV is known by the name of the file or by its content; " +
			"see --input-format"},
		{"skip-first-line", "not needed with CSV; for lines write: tail -n +2 FILE | qq batch …"},
		{"delimiter d trim eof E e recend recstart regexp regex remove-rec-sep rrs",
			"not offered: the inputs are lines, or with -0 what ends with NUL"},
		{"max-lines L l xargs X max-chars s exit x max-line-length-allowed",
			"not offered: -n N puts N inputs into one task; a prompt has no longest command line"},
		{"no-run-if-empty r", "not needed: empty lines make no task"},
		{"replace I U er bnr dnr bner extensionreplace basenamereplace dirnamereplace basenameextensionreplace " +
			"seqreplace slotreplace rpl parens plus process-slot-var",
			"not offered: placeholders are {} {.} {/} {//} {/.} {#} {%} {1} and {name}"},
		{"arg-sep arg-file-sep", "not offered: the separators are ::: and ::::"},
		{"quote shell-quote shell_quote shebang hashbang embed tmux tmux-pane tty open-tty fg ctrl-c " +
			"no-ctrl-c no-ctrlc",
			"not offered: a task is a prompt, not a shell command"},
		{"env record-env profile J plain session work-dir wd",
			"not offered: tasks have the environment of qq; -C names the folder, and .env keeps settings"},
		{"pipe pipe-part spreadstdin block block-size block-timeout bt round-robin round cat fifo tee shard " +
			"bin group-by",
			"not offered: a task reads its files itself; give it their names"},
		{"sshlogin S sshloginfile slf sshdelay ssh-delay ssh onall nonall filter-hosts " +
			"filter-host controlmaster M transfer transfer-file transfer-files tf return trc " +
			"cleanup basefile bf rsync-opts hgrp hostgrp hostgroup hostgroups W",
			"not offered: all runs on one machine, which may ask a model server on another one"},
		{"template tmpl", "write -m for the text of the tasks; templates of files are not offered"},
		{"semaphore semaphore-name semaphore-timeout id st bg wait",
			"not offered: -j is the limit of a batch, with all that its agents start"},
		{"load noswap nice memsuspend limit", "not offered: --memfree and --delay hold back the starts of tasks"},
		{"term-seq", "not offered: a task that is ended gets SIGTERM, and soon after SIGKILL"},
		{"filter", "not offered: leave these inputs out before"},
		{"compress compress-program use-compress-program use-decompress-program decompress-program tmpdir tempdir",
			"not offered: answers that wait for slower ones are kept in QQ_HOME"},
		{"sql sql-master sql-worker sql-and-worker", "not offered: qq runs list --json prints what was run"},
		{"interactive", "not offered: --dry-run shows the tasks, and qq asks about risky calls"},
		{"will-cite nn nonotice no-notice", "not needed: leave it out"},
		{"number-of-cpus number-of-sockets number-of-cores number-of-threads use-sockets-instead-of-threads " +
			"use-cores-instead-of-threads use-cpus-instead-of-cores",
			"not offered: -j +N, -N and N% count the processors that qq may use"},
		{"show-limits debug D bug gnu tollef shell-completion min-version version V B H T Y",
			"not offered; see qq --version, qq doctor and qq completion"},
	}
}

// Hints returns the hints for the flags of GNU parallel, by each way to write them, and for one of a prompt.
func Hints() command.Foreign {
	all := command.Foreign{"image": "not needed: write qq batch -m 'Describe {}' *.png, and each image is shown"}
	for _, f := range flags() {
		for name := range strings.FieldsSeq(f.names) {
			all[name] = f.hint
			all[strings.ReplaceAll(name, "-", "")] = f.hint
		}
	}
	return all
}

// Table returns the flags of GNU parallel that qq batch does not have as a table for docs/parallel.md.
func Table() string {
	var b strings.Builder
	b.WriteString("| GNU parallel | qq batch |\n|---|---|\n")
	for _, f := range flags() {
		for i, name := range strings.Fields(f.names) {
			fmt.Fprintf(&b, "%s`%s`", map[bool]string{true: "| ", false: " "}[i == 0], command.Dashed(name))
		}
		fmt.Fprintf(&b, " | %s |\n", strings.ReplaceAll(f.hint, "|", `\|`))
	}
	return b.String()
}
