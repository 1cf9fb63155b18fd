package task

// Stored is a result as it is written to a file, with the fields that its usual JSON
// leaves out. The output is stored beside it, because it may be bytes that JSON cannot
// hold.
type Stored struct {
	Result
	Effects    bool   `json:"effects,omitempty"`
	Unrecorded bool   `json:"unrecorded,omitempty"`
	Reads      []Read `json:"reads"` // nil (not known) differs from empty
}

// Store returns the part of r that is stored, without the output.
func Store(r Result) Stored {
	s := Stored{Result: r, Effects: r.Effects, Unrecorded: r.Unrecorded, Reads: r.Reads}
	s.Output = ""
	return s
}

// Restored returns the result that was stored, with its output.
func (s Stored) Restored(output string) Result {
	r := s.Result
	r.Output, r.Effects, r.Unrecorded, r.Reads = output, s.Effects, s.Unrecorded, s.Reads
	return r
}
