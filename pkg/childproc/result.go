package childproc

import (
	"encoding/hex"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"qq/pkg/childproc/plausible"
	"qq/pkg/childproc/room"
	"qq/pkg/childproc/stdio"
	"qq/pkg/proc"
	"qq/pkg/task"
)

// crashed is the exit code of a Go program whose runtime ended it. For a child without a result it
// does not mean what it means for qq: a mistake in the configuration.
const crashed = 2

// result returns the result of the job. It follows from how the process of the child ended and from
// the result frame of the child.
func (c *child) result() task.Result {
	exit := c.proc.Wait()
	r := c.job.Ended(task.NoResult, "")
	status, why := c.verdict(exit)
	if c.late && status == task.Completed { // woken by the signal that was to end it
		status, why = task.Killed, "child was ended by a signal: what it handed back came too late"
	}
	r.End(status, why)
	r.Usage = c.permits.reported() // which is paid, even if the child never said how it ended, or less than that
	if c.last != nil {
		if u := c.last.Usage.Bounded(plausible.MaxTokens); u.Tokens() >= r.Usage.Tokens() {
			r.Usage = u
		}
		c.note(c.last.ChangedFiles)
		r.Structured, r.Warnings, r.Did = c.last.Structured, c.last.Warnings, c.last.Did.Bounded()
		r.Unsaid = c.last.Unsaid
	}
	r.ChangedFiles = slices.Sorted(maps.Keys(c.changed))
	if c.unlisted > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("it changed more than %d files: others are not listed", maxChanged))
	}
	if exit.Left > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%d processes that it left behind were ended", exit.Left))
	}
	c.readAnswer(&r)
	// The code of the process, unless that would call a failure a success.
	switch {
	case exit.Signal != 0:
		r.ExitCode = 128 + int(exit.Signal)
	case exit.Code != 0 && (c.last != nil || exit.Code != crashed):
		r.ExitCode = exit.Code
	}
	c.repeatable(&r)
	if n := len(c.models); n > 0 {
		at := 0
		if c.last != nil {
			at = min(max(c.last.Fallback, 0), n-1)
		}
		r.Model, r.Fallback = c.models[at], at
	}
	return r
}

// repeatable sets the fields of r that decide whether the task may be run again or its result used
// again: side effects, attempts and reads. That the machine hindered the child is not believed
// without a look at the machine.
func (c *child) repeatable(r *task.Result) {
	// After it broke the protocol nobody listened to it, so it may have done anything.
	r.Effects = c.effects || len(r.ChangedFiles) > 0 || c.wrong != nil
	r.Attempts = 1
	if c.last == nil {
		r.Hindered = c.hello == nil && c.wrong == nil // it died before it could do anything
		return
	}
	r.Hindered = r.Status == task.Unavailable && !r.Effects && room.Full(filepath.Dir(c.outPath))
	r.Attempts += min(max(c.last.Repeats, 0), 1000) // more is not believed
	if r.Success && !r.Effects && c.last.Reads.sound() {
		r.Reads = c.last.Reads
	}
}

// sound reports whether every read in l is valid. If one is not, the caller must drop the whole
// list: a part of it would say that the task depends on less than it does.
func (l readList) sound() bool {
	return len(l) <= maxReads && !slices.ContainsFunc(l, func(r task.Read) bool {
		_, err := hex.DecodeString(r.Digest)
		return len(r.Arguments) > maxArguments || len(r.Digest) != 64 || err != nil
	})
}

// shortageHint says what a person can do when the kernel has killed a child because memory was short.
const shortageHint = "\nhint: run fewer at once (-j, QQ_MAX_PARALLEL), or see the memory limit of the container"

// verdict returns the status of the child and, unless that is success, the error text.
func (c *child) verdict(exit proc.Exit) (task.Status, string) {
	switch {
	case c.wrong != nil:
		return task.Failed, c.withTail("child broke the protocol: " + c.wrong.Error())
	case c.last == nil && exit.OutOfMemory:
		return task.OutOfMemory, "child was killed: memory was short" + shortageHint
	case c.last == nil && exit.Signal != 0:
		return task.Killed, c.withTail(fmt.Sprintf("child was killed by signal %d (%v)", int(exit.Signal), exit.Signal))
	case c.last == nil && exit.Code != 0:
		return task.NoResult, c.withTail(fmt.Sprintf("child exited with code %d without a result", exit.Code))
	case c.last == nil:
		return task.NoResult, c.withTail("child exited without a result")
	case c.last.Status != task.Completed:
		if c.last.Error == "" {
			return c.last.Status, c.withTail("child ended with status " + string(c.last.Status))
		}
		return c.last.Status, c.last.Error
	case exit.Signal != 0 || exit.Code != 0:
		return task.Failed, c.withTail(fmt.Sprintf("child said completed and ended with code %d, signal %d",
			exit.Code, int(exit.Signal)))
	}
	return task.Completed, ""
}

// readAnswer reads the output of the child into r. Output that is too long is cut, and its full
// text is kept in a file.
func (c *child) readAnswer(r *task.Result) {
	info, err := c.out.Stat()
	if err == nil && r.Success && info.Size() != c.last.Bytes {
		r.End(task.Failed, fmt.Sprintf("the answer is damaged: %d of %d bytes are there", info.Size(), c.last.Bytes))
	}
	var text stdio.Excerpt
	if err == nil {
		text, err = stdio.Read(c.out, info.Size(), c.launcher.cfg.MaxOutput)
	}
	if err != nil {
		r.End(task.Failed, "read the answer of the child: "+err.Error())
		return
	}
	if text.Repaired {
		r.Warnings = append(r.Warnings, "the output was not valid UTF-8 and was repaired")
	}
	if text.LeftOut > 0 {
		r.Truncated = true
		if r.OutputFile, err = stdio.Keep(c.outPath, c.launcher.cfg.Keep); err != nil {
			r.Warnings = append(r.Warnings, "the full output is lost: "+err.Error())
		}
	}
	r.Output = text.Text(c.launcher.cfg.MaxOutput, r.OutputFile)
	if r.Success && strings.TrimSpace(r.Output) == "" {
		r.End(task.Empty, "the agent gave an empty answer")
	}
}

// withTail returns msg with the last lines that the child wrote to stderr, if there are any.
func (c *child) withTail(msg string) string {
	if tail := stdio.LastLines(c.err, 2048, 6); tail != "" {
		return msg + ": " + tail
	}
	return msg
}
