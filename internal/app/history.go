package app

import (
	"context"
	"errors"
	"syscall"
	"time"

	"qq/internal/app/command"
	"qq/internal/config"
	"qq/internal/record"
	"qq/internal/record/ledger"
	"qq/internal/taskfile"
	"qq/pkg/task"
)

// openLedger is the ledger of this run, nil where none is wanted. Nothing is
// opened before something has to be recorded.
func (r *root) openLedger(cfg config.Config, dir, command string, without bool) *ledger.Recorder {
	if without {
		return nil
	}
	r.id = task.NewID()
	r.ledger = ledger.NewRecorder(cfg.Home, ledger.Root{ID: r.id, Started: time.Now(), Dir: dir, Command: command}, ledgerOptions(cfg))
	return r.ledger
}

func ledgerOptions(cfg config.Config) ledger.Options {
	return ledger.Options{Keep: time.Duration(cfg.KeepRuns) * 24 * time.Hour}
}

// ledgerError marks what a person can mend in the configuration.
func ledgerError(err error) error {
	if errors.Is(err, ledger.ErrDenied) || errors.Is(err, ledger.ErrReadOnly) || errors.Is(err, ledger.ErrNewer) {
		return command.Usage(err)
	}
	return err
}

// openHistory finds the batch that the flags want to go on with, or begins one.
func (b *batchRun) openHistory(ctx context.Context, spool *taskfile.Spool) error {
	on, again := b.r.resume, b.r.resumeFailed
	switch {
	case on.Given && again.Given:
		return command.Usagef("--resume-failed runs what has no result too", "--resume and --resume-failed are both given")
	case b.r.ledger == nil && b.o.cache:
		return command.Usagef("leave one of them out", "--cache needs the ledger, and --no-ledger is given")
	}
	var err error
	b.id, err = b.wiring.History().Open(ctx, record.Batch{
		ID: on.Value + again.Value, Resume: on.Given || again.Given, Failed: again.Given, // one of them has a value
		Cache: b.o.cache, Log: b.o.joblog, Count: spool.Len(),
	}, b.tasks(spool))
	switch {
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, syscall.ENOSPC):
		return command.Advised(err, "free some space")
	case errors.Is(err, record.ErrUnknown), errors.Is(err, record.ErrAtWork), errors.Is(err, ledger.ErrAmbiguous),
		err != nil && b.o.joblog != "" && !isLedger(err):
		return command.Usage(command.Advised(err, "qq runs list shows the batches"))
	case err != nil:
		return ledgerError(err)
	}
	if b.o.bar {
		if last := b.wiring.History().Unfinished(); last != "" {
			b.r.Say("the batch before this one did not come to its end: --resume=%s would go on with it", task.ShortID(last))
		}
	}
	return nil
}

// isLedger reports whether err is trouble with the ledger itself.
func isLedger(err error) bool {
	for _, state := range []error{ledger.ErrFull, ledger.ErrReadOnly, ledger.ErrDenied, ledger.ErrLocked, ledger.ErrDamaged, ledger.ErrNewer} {
		if errors.Is(err, state) {
			return true
		}
	}
	return false
}

// emptyOutput makes room in the file for the results.
func (b *batchRun) emptyOutput() error {
	if b.o.output == "" {
		return nil
	}
	if err := b.to.Truncate(0); err != nil && !errors.Is(err, syscall.EINVAL) { // a pipe has no length
		return command.Usagef("-o takes a file that you may write", "%v", err)
	}
	return nil
}
