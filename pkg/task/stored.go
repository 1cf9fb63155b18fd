package task

// Stored is a result as it is kept in a file of ours, with what its JSON leaves
// out. The output is kept beside it: it is bytes, and JSON holds only text.
type Stored struct {
	Result
	Effects    bool   `json:"effects,omitempty"`
	Unrecorded bool   `json:"unrecorded,omitempty"`
	Reads      []Read `json:"reads"` // nil is not none
}

// Store is what to keep of r besides its output.
func Store(r Result) Stored {
	s := Stored{Result: r, Effects: r.Effects, Unrecorded: r.Unrecorded, Reads: r.Reads}
	s.Output = ""
	return s
}

// Restored is the result that was kept, with its output.
func (s Stored) Restored(output string) Result {
	r := s.Result
	r.Output, r.Effects, r.Unrecorded, r.Reads = output, s.Effects, s.Unrecorded, s.Reads
	return r
}
