package task

// Stored is a result as it is written to a file. It includes the fields that the usual JSON of a
// result leaves out. The output is stored separately, because it may contain bytes that JSON cannot
// represent.
type Stored struct {
	Result
	Effects    bool     `json:"effects,omitempty"`
	Unrecorded bool     `json:"unrecorded,omitempty"`
	Hindered   bool     `json:"hindered,omitempty"`
	Fallback   int      `json:"fallback,omitempty"`
	Unsaid     []string `json:"unsaid,omitempty"`
	Away       []Span   `json:"away,omitempty"`
	Reads      []Read   `json:"reads"` // nil means not known; empty means that nothing was read
}

// Store returns r in the form in which it is stored, without its output.
func Store(r Result) Stored {
	s := Stored{Result: r, Effects: r.Effects, Unrecorded: r.Unrecorded, Hindered: r.Hindered, Reads: r.Reads}
	s.Fallback, s.Unsaid, s.Away = r.Fallback, r.Unsaid, r.Away
	s.Output = ""
	return s
}

// Restored returns the result that was stored as s, with the given output.
func (s Stored) Restored(output string) Result {
	r := s.Result
	r.Output, r.Effects, r.Unrecorded, r.Reads = output, s.Effects, s.Unrecorded, s.Reads
	r.Hindered, r.Fallback, r.Unsaid, r.Away = s.Hindered, s.Fallback, s.Unsaid, s.Away
	return r
}
