package app

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"qq/internal/commandline"
	"qq/internal/config"
	"qq/internal/engine"
	"qq/internal/joblog"
	"qq/internal/ledger"
	"qq/pkg/task"
)

// openLedger is the ledger of this run, nil where none is wanted. Nothing is
// opened before something has to be recorded.
func (r *root) openLedger(cfg config.Config, dir, command string, without bool) *ledger.Recorder {
	if without {
		return nil
	}
	r.id = engine.NewID()
	r.ledger = ledger.NewRecorder(cfg.Home, ledger.Root{ID: r.id, Started: time.Now(), Dir: dir, Command: command}, ledgerOptions(cfg))
	return r.ledger
}

func ledgerOptions(cfg config.Config) ledger.Options {
	return ledger.Options{Keep: time.Duration(cfg.KeepRuns) * 24 * time.Hour}
}

// history is what a batch has to do with those before it.
type history struct {
	ledger     *ledger.Recorder
	root       string // execution id of this process
	unrecorded bool   // there is no ledger
	options    engine.BatchOptions
}

// history finds the batch that the flags want to go on with.
func (r *root) history(o batchOptions, dir string) (history, error) {
	h := history{ledger: r.ledger, root: r.id, unrecorded: r.ledger == nil}
	h.options = engine.BatchOptions{Resume: r.resume.Given || r.resumeFailed.Given, Failed: r.resumeFailed.Given, Cache: o.cache}
	switch {
	case r.resume.Given && r.resumeFailed.Given:
		return h, usagef("--resume-failed runs what has no result too", "--resume and --resume-failed are both given")
	case h.unrecorded && o.cache:
		return h, usagef("leave one of them out", "--cache needs the ledger, and --no-ledger is given")
	case !h.options.Resume:
		h.options.ID = engine.NewID()
		return h, nil
	case h.unrecorded && o.joblog == "":
		return h, usagef("name the log of the batch with --joblog, or leave --no-ledger out", "without the ledger nothing is known of an earlier batch")
	case h.unrecorded:
		return h, h.fromJoblog(o)
	}
	err := h.fromLedger(o, dir, r.resume, r.resumeFailed)
	if errors.Is(err, ledger.ErrNone) && o.joblog != "" {
		return h, h.fromJoblog(o)
	}
	return h, err
}

// fromLedger finds the batch of that id, that of the joblog, or the last one of
// the directory.
func (h *history) fromLedger(o batchOptions, dir string, flags ...commandline.Optional) error {
	led, err := h.ledger.Ledger()
	if err != nil {
		return err
	}
	id := flags[0].Value + flags[1].Value // one of them is given
	var b ledger.Batch
	what := "batch of this directory"
	switch {
	case id != "":
		b, err = led.Find(id)
		what = "batch " + id
	case o.joblog != "":
		b, err = led.ByJoblog(o.joblog)
		what = "batch with the log " + o.joblog
	default:
		b, err = led.Last(dir)
	}
	switch {
	case errors.Is(err, ledger.ErrNone) && id == "" && o.joblog != "":
		return err
	case errors.Is(err, ledger.ErrNone):
		return usagef("qq runs list shows what there is; without --resume the batch begins", "there is no %s in the ledger", what)
	case err != nil:
		return usage(advised(err, "qq runs list shows the batches"))
	}
	h.options.ID = b.ID
	return nil
}

// fromJoblog takes from the log alone what is done. There are no results to print
// again then.
func (h *history) fromJoblog(o batchOptions) error {
	done, err := joblog.Finished(o.joblog, !h.options.Failed) // how many tasks have that key
	if err != nil {
		return usage(advised(err, "--resume with --joblog takes the log of an earlier batch"))
	}
	h.options.ID, h.options.Resume = engine.NewID(), false
	h.options.Done = func(t task.Task) bool {
		key := joblog.Key(engine.TaskKey(t))
		if done[key] == 0 {
			return false
		}
		done[key]--
		return true
	}
	return nil
}

// begin records that the batch begins, or goes on.
func (h *history) begin(dir, log string, count int) error {
	if h.unrecorded {
		return nil
	}
	led, err := h.ledger.Ledger()
	if err != nil {
		return err
	}
	return led.Begin(ledger.Batch{ID: h.options.ID, Root: h.root, Dir: dir, Joblog: log, Count: count, Started: time.Now()})
}

// short is how people name the batch: by the end of its id.
func (h *history) short() string { return h.options.ID[max(0, len(h.options.ID)-8):] }

// logged writes the line of one task into the log of the batch, unless that was
// done when it ended.
func (b *batchRun) logged(res task.Result) {
	key, ran := b.keys.take(res.Index)
	if b.joblog == nil || !ran || res.Attempts == 0 {
		return
	}
	started := time.Now().Add(-time.Duration(res.DurationMS) * time.Millisecond)
	if err := b.joblog.Add(res, key, res.Task, started); err != nil && b.logErr == nil {
		b.logErr = fmt.Errorf("%w\nhint: free space, then go on with --resume", err)
	}
}

// keys are what tasks are found by, by index, until they are taken.
type keys struct {
	mu sync.Mutex
	of map[int]string
}

func (k *keys) put(index int, key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.of == nil {
		k.of = map[int]string{}
	}
	k.of[index] = key
}

func (k *keys) take(index int) (string, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	key, ok := k.of[index]
	delete(k.of, index)
	return key, ok
}
