package batch

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"time"

	"qq/internal/app/command"
	"qq/internal/record"
	"qq/internal/record/ledger"
	"qq/pkg/task"
)

// openRecord begins a batch in the record, or finds the batch that the flags resume.
func (b *batchRun) openRecord(ctx context.Context) error {
	switch {
	case b.o.resume.Given && b.o.resumeFailed.Given:
		return command.Usagef("--resume-failed runs what has no result too",
			"--resume and --resume-failed are both given")
	case b.o.noLedger && b.o.cache:
		return command.Usagef("leave one of them out", "--cache needs the ledger, and --no-ledger is given")
	}
	var err error
	b.id, err = b.runner.History().Open(ctx, record.Batch{
		ID: b.o.continued(), Resume: b.o.continues(), Failed: b.o.resumeFailed.Given,
		Begin: b.to.empty(), Cache: b.o.cache, Log: b.o.joblog, Count: b.spool.Len(),
	}, b.tasks())
	switch {
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, syscall.ENOSPC):
		return command.Advised(err, "free some space")
	case errors.Is(err, record.ErrUnknown), errors.Is(err, record.ErrAtWork), errors.Is(err, ledger.ErrAmbiguous),
		err != nil && b.o.joblog != "" && !isLedger(err):
		return command.Usage(command.Advised(err, "qq runs list shows the batches"))
	case err != nil:
		return err
	case b.o.continues() && !b.runner.History().Resumes():
		b.Note("there is no batch to resume: it begins")
	}
	return nil
}

// hintDelay is how long a batch runs before it opens the database for a hint. By then its first
// children have started.
const hintDelay = time.Second

// hintUnfinished tells the user that the previous batch of the directory, with these tasks, can be resumed, if so. It
// does that after hintDelay, or when ended is closed.
func (b *batchRun) hintUnfinished(ctx context.Context, ended <-chan struct{}) {
	select {
	case <-ended:
	case <-time.After(hintDelay):
	}
	last, ok := b.runner.History().Unfinished(ctx, b.tasks())
	if !ok {
		return
	}
	hint := "did not finish: --resume=%s continues it"
	if last.Status == task.Failed { // as at its end: --resume may have nothing to run
		hint = "did not complete: --resume-failed=%s continues it"
	}
	done, _ := last.Done()
	b.Note("the previous batch with such tasks (%d/%d done, started %s) "+hint,
		done, last.Count, last.Started.Local().Format("2006-01-02 15:04"), task.ShortID(last.ID))
}

// isLedger reports whether err is a fault of the ledger, and not a mistake of the user.
func isLedger(err error) bool {
	return slices.ContainsFunc([]error{
		ledger.ErrFull, ledger.ErrReadOnly, ledger.ErrDenied, ledger.ErrLocked, ledger.ErrDamaged, ledger.ErrNewer,
	}, func(state error) bool { return errors.Is(err, state) })
}
