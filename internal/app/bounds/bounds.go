// Package bounds turns settings into the limits of a run.
package bounds

import (
	"context"
	"os"
	"slices"

	"qq/internal/box"
	"qq/internal/config"
	"qq/internal/models/gate"
	"qq/pkg/supervisor"
	"qq/pkg/supervisor/limits"
	"qq/pkg/task"
)

// OnQuota returns what happens when a quota is used up. Who names models that are asked instead means that they are.
func OnQuota(set config.Config) gate.OnQuota {
	if set.OnQuota == string(gate.QuotaAuto) && len(set.Fallback) > 0 {
		return gate.QuotaFallback
	}
	return gate.OnQuota(set.OnQuota)
}

// Of returns the limits of the run from the settings.
func Of(set config.Config) supervisor.Limits {
	return supervisor.Limits{
		Limits: task.Limits{
			ChildTimeout: set.ChildTimeout, IdleTimeout: set.IdleTimeout,
			Retries: set.Retries, SpawnRate: set.SpawnRate, MaxParallel: set.MaxParallel,
			MaxDepth: set.MaxDepth, MaxChildren: set.MaxChildren, MaxOutput: set.MaxOutput,
		},
		TimeoutBy: sourceOf(set, "QQ_CHILD_TIMEOUT", "--timeout"),
		IdleBy:    sourceOf(set, "QQ_IDLE_TIMEOUT", "--idle-timeout"),
	}
}

// sourceOf returns who set the limit of time with that name, and how a person sets another.
func sourceOf(set config.Config, name, flag string) limits.Source {
	s := limits.Source{How: "with " + flag + " or " + name + ", 0 means none"}
	switch by := set.Source(name); by {
	case "", "default":
	case "flag " + flag:
		s.By = flag
	default:
		s.By, s.Lowers = name+" ("+by+")", set.OnlyLowers(name)
	}
	return s
}

// WithTimeout returns a context that ends after the time of --timeout, which limits a run as a whole.
func WithTimeout(ctx context.Context, set config.Config) (context.Context, context.CancelFunc) {
	if set.Source("QQ_CHILD_TIMEOUT") != "flag --timeout" || set.ChildTimeout == 0 {
		return ctx, func() {}
	}
	limit := Of(set).TimeoutBy.Limit(set.ChildTimeout, 0, "")
	return context.WithTimeoutCause(ctx, limit.For, limit.RunOver())
}

// Commands returns the limits of commands.
func Commands(set config.Config) box.Limits {
	return box.Limits{
		Memory: int64(set.CommandMemory) << 20, Processes: set.CommandProcesses,
		FileSize: int64(set.CommandFileSize) << 20,
	}
}

// Writable returns the folders of QQ_WRITABLE. It also names sockets and files that programs obey, see package box.
func Writable(set config.Config) []string {
	return slices.DeleteFunc(slices.Clone(set.Writable), func(path string) bool {
		info, err := os.Stat(path)
		return err != nil || !info.IsDir()
	})
}
