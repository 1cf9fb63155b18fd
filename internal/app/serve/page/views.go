package page

import (
	"html/template"
	"strings"
	"time"
)

// Frame is what all pages have.
type Frame struct {
	Title  Text
	Tab    string // runs, or empty
	Query  Text   // in the search box
	Events string // where the live part of the page comes from; empty means that there is none
	Export bool
}

// State is a state as a sign with a colour, and a word.
type State struct{ Class, Word string }

// Classes of states.
const (
	Run  = "s-run"
	Wait = "s-wait"
	Ask  = "s-ask"
	OK   = "s-ok"
	Bad  = "s-bad"
	Idle = "s-idle"
	Off  = "s-off"
)

// Link is a link of a page.
type Link struct {
	URL      string
	Text     Text
	Here     bool // it leads to this page
	Download bool
}

// Act is a button that sends a form.
type Act struct {
	URL, Root, ID string
	Text          string
	Ask           string // what the person is asked before
	Harm          bool
	When          string // on, paused or silent: the script shows it then
	Hidden        bool   // it is not so now
}

// Fact is a value with its name.
type Fact struct {
	Name  string
	Value Text
	Note  Text
	Key   string // by which a live page finds it
	Since int64  // a time that goes on, in milliseconds since 1970; 0 means that it stands
}

// Head is the head of the page of a run or a job.
type Head struct {
	Trail []Link
	Name  Text
	State State
	Facts []Fact
	Links []Link
	Acts  []Act
}

// keys are those of the facts that change while a run is at work.
var keys = []string{"done", "work", "time", "tokens", "cost"}

// Live are the values that change while a run is at work, by their keys; empty is one that there is not.
func (h Head) Live() map[string]string {
	all := map[string]string{}
	for _, key := range keys {
		all[key] = ""
	}
	for _, f := range h.Facts {
		if f.Key != "" {
			all[f.Key] = strings.TrimSpace(f.Value.String() + " " + f.Note.String())
		}
	}
	return all
}

// Notice is a line that a reader must not miss.
type Notice struct {
	Class string
	Text  Text
	When  string // on, paused or silent, as of [Act]
	// Hidden says that it is not so now.
	Hidden bool
}

// Share is a part of a bar of 1,000.
type Share struct {
	Class    string
	X, Width int
}

// RunRow is a run in a list.
type RunRow struct {
	ID, URL     string
	Name        Text
	State       State
	When, Stamp string
	Meta        []Text
	Shares      []Share
	Pieces      []Piece // where it was found
	Choose      bool
}

// Piece is a piece of text that may be marked, or a line of a diff.
type Piece struct {
	Class string
	Text  Text
}

// Runs is the page of all runs.
type Runs struct {
	Frame
	Notices      []Notice
	Live, Past   []RunRow
	Questions    []Question
	Newer, Older string
	Choose       bool   // two runs, to compare them
	Choosing     string // the page on which one can
}

// Row is a job in a tree.
type Row struct {
	ID, URL string
	Agent   Text
	Task    Text
	State   State
	Below   Text // what it does, or its error
	Failed  bool // Below is an error
	Time    string
	Since   int64
	Tokens  string
	Rows    []Row
	Open    bool
	Part    string // from where the rest of the rows below it comes
	Page    string // the same as a page
	Count   string // how many these are
	Choose  bool
	Loose   bool // it is in the list of jobs at work, besides its place in the tree
}

// Answer is one answer to a question.
type Answer struct {
	Value string
	Text  Text
	Class string
}

// Question is an open question.
type Question struct {
	ID, Root string
	Run      Link
	Folder   Text // in which the call would run
	Asked    time.Time
	When     string // Asked
	Summary  Text
	Who      Text
	Risk     Text
	Task     Text
	Preview  []Piece
	Cut      string // why it cannot be allowed
	Later    bool   // it can be allowed later
	Answers  []Answer
}

// Control has the buttons for a whole run.
type Control struct {
	Root string
	Acts []Act
	Cap  int
}

// Tree is the page of a run.
type Tree struct {
	Frame
	Head         Head
	Notices      []Notice
	Tabs         []Link
	Questions    []Question
	Control      *Control
	Comparing    bool
	Work         []Row
	Heading      string
	Rows         []Row
	Newer, Older string
	Span         string
}

// Attempt is one attempt of a job.
type Attempt struct {
	Number  int
	State   State
	Started string
	Time    string
	Tokens  string
	Error   Text
}

// Call is a call of a tool in a transcript.
type Call struct{ Tool, Brief, Arguments Text }

// Entry is a message of a transcript.
type Entry struct {
	Who      Text
	Meta     []Text
	Thinking Text
	Text     Text
	Folded   Text // the line under which a long text is folded; empty means that it is open
	Calls    []Call
	Failed   bool
}

// File is what a job has changed in a file.
type File struct {
	Name  Text
	Note  string
	Lines []Piece
}

// Job is the page of a job.
type Job struct {
	Frame
	Head       Head
	Notices    []Notice
	Questions  []Question
	Message    *Act
	Live       bool
	Doing      Text
	LiveText   string // from where the live text comes
	Task       Text
	Error      Text
	Answer     Text
	AnswerNote Text
	AnswerURL  string // of all of it
	Attempts   []Attempt
	Files      []File
	Below      []Row
	Talk       []Entry
	TalkNote   Text
	TalkMore   *Link
}

// Key explains a colour of a drawing.
type Key struct{ Class, Text string }

// Drawing is a drawing with its name.
type Drawing struct {
	Name   string
	SVG    template.HTML
	Legend []Key
}

// Drawn is a page of drawings.
type Drawn struct {
	Frame
	Head         Head
	Tabs         []Link
	Note         string
	Drawings     []Drawing
	Newer, Older string
	Span         string
}

// Found is the page of a search.
type Found struct {
	Frame
	Note  string
	Hits  []RunRow
	Older string
}

// Pair is a value of each of two jobs.
type Pair struct {
	Name string
	A, B Text
}

// Compare is one of two runs that are compared.
type Compare struct {
	Link
	State State
}

// Side is what a job of a pair came to; without a state there is none.
type Side struct {
	State        State
	Time, Tokens string
}

// PairRow is a row of two jobs for the same task.
type PairRow struct {
	Number string // of a task of a batch
	Depth  int
	Task   Text
	URL    string // of the comparison of both
	Sides  [2]Side
	Answer string // whether it is the same
}

// Compared is the page of two runs or two jobs side by side.
type Compared struct {
	Frame
	Heading      string
	A, B         Compare
	Facts        []Pair
	Answers      bool // the answers of two jobs are shown
	Same         bool
	Files        []File
	Note         string
	Pairs        []PairRow
	Count        int // of all pairs
	Newer, Older string
	Span         string
}

// Add adds a value of both, if one has it.
func (c *Compared) Add(name, a, b string) {
	if a != "" || b != "" {
		c.Facts = append(c.Facts, Pair{Name: name, A: Line(a, 300), B: Line(b, 300)})
	}
}

// ExportJob is a job in an exported file, with all that is known about it.
type ExportJob struct {
	Row                 Row
	Task, Error, Answer Text
	Files               []File
	Talk                []Entry
	Jobs                []ExportJob
}

// Export is a run as one file.
type Export struct {
	Frame
	Head     Head
	Notices  []Notice
	Drawings []Drawing
	Jobs     []ExportJob
	Left     string
}

// Failure is the page that says why there is no other one.
type Failure struct {
	Frame
	Problem, Hint Text
}

// Timeline are the keys of the drawings of a timeline.
func Timeline() []Key {
	return []Key{{"k-queue", "in the queue, or without a slot"}, {"k-run", "at work"},
		{"k-model", "waiting for the model"}, {"k-retry", "a new attempt"}, {"k-chain", "the longest chain"}}
}

// SVG is a drawing that html/template has escaped.
type SVG = template.HTML
