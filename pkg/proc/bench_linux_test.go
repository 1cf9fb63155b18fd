package proc

import (
	"os/exec"
	"testing"
)

// BenchmarkStart compares Start and Wait of a trivial program with bare os/exec.
func BenchmarkStart(b *testing.B) {
	b.Run("os/exec", func(b *testing.B) {
		for b.Loop() {
			if err := exec.Command("/bin/true").Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, f := range []fence{group, pidNamespace, userNamespace} {
		b.Run(fences[f], func(b *testing.B) {
			h := hostBehind(b, f)
			for b.Loop() {
				p, err := h.Start(Command{Path: "/bin/true", Namespace: true, Marker: "PROC_TEST=a"})
				if err != nil {
					b.Fatal(err)
				}
				if exit := p.Wait(); exit.Code != 0 {
					b.Fatal(exit)
				}
			}
		})
	}
	b.Run("subreaper, another one live", func(b *testing.B) {
		h := hostBehind(b, group)
		enter(b, h, helper("hang")).hear(b)
		for b.Loop() {
			p, err := h.Start(Command{Path: "/bin/true", Marker: "PROC_TEST=a"})
			if err != nil {
				b.Fatal(err)
			}
			p.Wait()
		}
	})
}
