// Package wire says how other agent programs, such as Claude Code, are talked to: what a kind of program must be able
// to say about itself ([Dialect]), what it is told ([Job], [Stream]), and what it tells ([Reporter], [Outcome]).
//
// Flow: package foreign asks the dialect of a program for its [Command], starts that in the sandbox, and hands its
// stdin and stdout to Converse. Converse returns when the end mark of the turn has come, or when the stream has ended.
// It tells the Reporter what the program does meanwhile. The verdict is made elsewhere, of the Outcome and of how the
// processes ended.
//
// What a program writes is a stranger's: Lines are bounded, and dialects parse them strictly and ignore what they do
// not know. The Reporter cleans and bounds the texts that it gets; a dialect need not.
package wire

import (
	"context"
	"encoding/json"
	"io"

	"qq/pkg/agents/program"
	"qq/pkg/llm"
	"qq/pkg/money"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// Dialect is how one kind of program is started, and what its stream means. It has no state: several goroutines may
// use one.
type Dialect interface {
	// Command returns how the program is started for job. An error means that it cannot do the job.
	Command(job Job) (Command, error)
	// Converse gives the job to the program that was started, and reads what it writes until the end mark of the turn,
	// or until the stream ends. It closes s.In when it has nothing more to write, at the latest when it returns.
	// Without an end mark the Outcome has what is known so far. The error says why the stream could not be read to its
	// end; a stream that ends early is no error. When ctx ends, the program is ended, and so does its stream: Converse
	// need not look at ctx, but what else it waits for must end with it.
	Converse(ctx context.Context, job Job, s Stream, to Reporter) (Outcome, error)
}

// Job is the work of a program.
type Job struct {
	Program  program.Program
	Text     string // of the task, with its context; of a later turn, what is said then
	System   string // the instructions in the definition of the agent; empty means none
	Model    string // for the program, not one of qq's; empty means that the program chooses
	MaxTurns int    // 0 means no limit
	// MaxCost is what the turn may cost at most, for programs that count that; 0 means no limit.
	MaxCost  money.Amount
	ReadOnly bool // the program may change nothing; the sandbox keeps it from that too
	// Auto says that nothing is asked: every call is allowed, within the sandbox. Else the program must ask before each
	// call that its own settings do not allow, and the dialect passes the questions to [Reporter.Ask].
	Auto   bool
	Schema json.RawMessage // of the answer; nil means none
	Dir    string          // the working directory, an absolute path
	// Session is that of the [Outcome] of an earlier turn, which this one continues in a new process, to repair its
	// work; empty means a new conversation. A dialect that cannot continue one leaves Session in its Outcome empty.
	Session string
}

// Command says how a program is started.
type Command struct {
	// Args is the command line. The first word is [program.Program.Executable].
	Args []string
	// Add are entries NAME=value of the environment that it gets besides those of qq, and Drop the names of those that
	// it does not inherit, so that it does not take itself for a nested one. A name that ends in * is a prefix.
	Add, Drop []string
	// Keep are the names of variables with a login of the person's for this program, or with the address of its model
	// server: it gets them though qq hands on no secrets otherwise. Keep counts more than Drop.
	Keep []string
	// Lodgings are the folders in which it keeps its settings and state.
	Lodgings []Lodging
}

// Lodging is a folder in which a program keeps settings and state. For each task the program gets one of its own, with
// copies of some files of the person's, and can write there. The person's own one it can read only.
type Lodging struct {
	// Variable of the environment names the folder: "CLAUDE_CONFIG_DIR". It may be HOME.
	Variable string
	// Default is the folder of the person's, relative to the home directory, that counts if the variable is not set:
	// ".claude". Empty means the home directory.
	Default string
	// Files are copied, as far as they exist: relative to the folder, with slashes. A login is among them.
	Files []string
}

// Stream is stdin and stdout of a program.
type Stream struct {
	In  io.WriteCloser
	Out *Lines
}

// Reporter is told what a program does. Its methods may be called by several goroutines. Whatever arrives on the stream
// counts as activity; no dialect has to report that.
type Reporter interface {
	// Text says that the model of the program has written a piece of its answer.
	Text(piece string)
	// Message adds a message to the transcript: an answer of the model with its calls, or the result of a call. A call
	// is reported here or by Began and Finished, or by both.
	Message(m llm.Entry)
	// Began and Finished say that a call of a tool has begun and ended. The second needs no first.
	Began(c tool.Call)
	Finished(callID string, failed bool, result string)
	// Used says what was used so far, in all: it replaces what was said before. The run ends if that is too much.
	Used(u task.Usage)
	// Turn says that a turn of the model begins; n counts from 1.
	Turn(n int)
	// Ask decides whether a call may run. It may wait for a person; ctx ends the wait.
	Ask(ctx context.Context, q Question) tool.Decision
	// Note tells a person something on the way, and Warn adds a warning to the result.
	Note(format string, args ...any)
	Warn(format string, args ...any)
	// Inbox returns the channel on which messages for the agent arrive. A dialect that cannot hand them on leaves it.
	Inbox() <-chan string
}

// Question is a call that a program wants to make.
type Question struct {
	CallID string
	Tool   string // as the program names it
	// Effect is what the call does, as far as it is known; a call of which nothing is known [tool.Executes].
	Effect  tool.Effect
	Paths   []string // that it touches, absolute or relative to the working directory
	Command string   // the command line that it runs
	Host    string   // that it reaches
	Summary string   // one line; empty means one of the Tool and the other fields
	Preview string   // what a person needs to decide: a diff, a command line
	Cut     bool     // Preview is not whole
}

// Outcome is what the stream of a program said about its turn.
type Outcome struct {
	// Ended says that the end mark of the turn has come.
	Ended bool
	// Failed is why the turn failed, as the program says; empty means that it did not.
	Failed string
	// Status is the status of a failed turn, if the program says more than that it failed, such as [task.TurnLimit].
	// Empty means [task.Failed].
	Status task.Status
	// Answer is the final answer, or what there is of it. Structured is the one in JSON, if one was asked for.
	Answer     string
	Structured json.RawMessage
	Usage      task.Usage // of the whole turn
	Model      string     // the name of the model that answered, as the program says
	Session    string     // the id that the program gave the conversation
	Turns      int        // of the model; 0 means unknown
}
