package cost

// Budget is what one message, including all requests of a batch, may still cost. Costs
// are roughly proportional to bytes of memory or to time; honest messages need a small
// part of the budget. It is not safe for concurrent use.
type Budget struct {
	// memory is how many bytes decoding may still allocate, of begun in the beginning.
	memory, begun int
	// steps are comparisons of readings with selectors, terms are parts of selectors to
	// parse, copies are readings that belong to more than one metric.
	steps, terms, copies int
	// pods is how many pods explanations may still list.
	pods int
	// cells is how many pods or samples of metrics may still be evaluated.
	cells int
}

// Initial budgets, for an empty message and per byte. They limit memory to 32 MiB plus ten
// bytes per byte sent, including decoding, and processor time to 50 ms plus 2 s per 16 MiB,
// which is 120 ns per byte.
const (
	memoryFloor, memoryPerByte = 20 << 20, 8
	// A step takes some 50 ns, a term some 5 µs.
	stepsFloor, bytesPerStep = 200_000, 1
	termsFloor, bytesPerTerm = 10_000, 128
	// A copy takes some 60 bytes.
	copiesFloor, bytesPerCopy = 50_000, 32
	// A pod in an explanation takes podMemory, and up to 1 KiB temporarily.
	podsFloor, bytesPerPod, podMemory = 20_000, 256, 600
	// A cell takes some 10 ns. A hundred metrics of 20,000 pods with two containers
	// have some 5 per byte.
	cellsFloor, cellsPerByte = 2_000_000, 8
)

// Reset sets the budget of a message of that size.
func (b *Budget) Reset(bytes int) {
	*b = Budget{
		memory: memoryFloor + memoryPerByte*bytes,
		steps:  stepsFloor + bytes/bytesPerStep,
		terms:  termsFloor + bytes/bytesPerTerm,
		copies: copiesFloor + bytes/bytesPerCopy,
		pods:   podsFloor + bytes/bytesPerPod,
		cells:  cellsFloor + cellsPerByte*bytes,
	}
	b.begun = b.memory
}

// BudgetOf returns the budget of a message of that size.
func BudgetOf(bytes int) *Budget {
	b := new(Budget)
	b.Reset(bytes)
	return b
}

// Memory spends bytes. It and the methods below return false if the budget is too
// small; a nil budget is unlimited.
func (b *Budget) Memory(bytes int) bool { return b == nil || spend(&b.memory, bytes) }

// Made returns how many bytes were spent, at most the initial budget.
func (b *Budget) Made() int { return b.begun - max(0, b.memory) }

// Steps spends comparisons of a reading with a selector's requirements and values.
func (b *Budget) Steps(n int) bool { return b == nil || spend(&b.steps, n) }

// Terms spends requirements and values of selectors to parse.
func (b *Budget) Terms(n int) bool { return b == nil || spend(&b.terms, n) }

// Copies spends readings that belong to further metrics.
func (b *Budget) Copies(n int) bool { return b == nil || spend(&b.copies, n) }

// Cells spends pods or samples, of one metric each.
func (b *Budget) Cells(n int) bool { return b == nil || spend(&b.cells, n) }

// Pods returns how many of that many pods an explanation may list.
func (b *Budget) Pods(wanted int) (granted int) {
	if b == nil {
		return wanted
	}
	granted = min(wanted, b.pods, max(0, b.memory)/podMemory)
	b.pods -= granted
	b.memory -= granted * podMemory
	return granted
}

// spend goes below zero if the budget is too small, so that all later calls fail.
func spend(left *int, n int) bool {
	*left -= n
	return *left >= 0
}
