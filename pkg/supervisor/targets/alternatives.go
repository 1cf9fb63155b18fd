package targets

// MaxAlternatives is how many alternatives of {a,b} a target may have in all: of {a,b}/{c,d} that is four. Comparing a
// path with a target takes as many times longer.
const MaxAlternatives = 64

// Alternatives returns how many alternatives a glob has at most. It may be too large for one with a comma in a class.
func Alternatives(glob string) (product float64) {
	product = 1
	open := []float64{}
	for i := 0; i < len(glob); i++ {
		last := len(open) - 1
		switch c := glob[i]; {
		case c == '\\':
			i++
		case c == '{':
			open = append(open, 1)
		case c == ',' && last >= 0:
			open[last]++
		case c == '}' && last >= 0:
			product *= open[last]
			open = open[:last]
		}
	}
	return product
}
