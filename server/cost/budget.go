package cost

// Budget is what may still be spent on one message, all requests of a batch together.
// What is spent is about proportional to bytes of memory or to time; honest messages
// spend a small part of it. It is not safe for concurrent use.
type Budget struct {
	// memory is bytes that may still be made of the message, of those that it began with.
	memory, begun int
	// steps are comparisons of readings with selectors, terms are parts of selectors
	// to be parsed, copies are readings that belong to more than one metric.
	steps, terms, copies int
	// pods are how many explanations may still list.
	pods int
	// cells are pods or samples of metrics that may still be evaluated.
	cells int
}

// What a budget begins with, for the message of no bytes and for each byte. The bounds
// are, of memory, 32 MiB and ten bytes per byte sent, decoding included; of processor time,
// 50 ms and 2 s per 16 MiB, which is 120 ns per byte.
const (
	memoryFloor, memoryPerByte = 20 << 20, 8
	// A step takes some 50 ns, a term some 5 µs.
	stepsFloor, bytesPerStep = 200_000, 1
	termsFloor, bytesPerTerm = 10_000, 128
	// A copy takes some 60 bytes.
	copiesFloor, bytesPerCopy = 50_000, 32
	// A pod that an explanation lists takes podMemory, and up to 1 KiB on its way.
	podsFloor, bytesPerPod, podMemory = 20_000, 256, 600
	// A cell takes some 10 ns. A hundred metrics of 20,000 pods of two containers have
	// some 5 for each byte.
	cellsFloor, cellsPerByte = 2_000_000, 8
)

// Reset makes it the budget of a message of that size.
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

// Memory spends bytes. Here and below the answer is false where that is too much; a
// nil budget is unlimited.
func (b *Budget) Memory(bytes int) bool { return b == nil || spend(&b.memory, bytes) }

// Made returns how many bytes were spent: at most what there was.
func (b *Budget) Made() int { return b.begun - max(0, b.memory) }

// Steps spends comparisons of a reading with a selector's requirements and values.
func (b *Budget) Steps(n int) bool { return b == nil || spend(&b.steps, n) }

// Terms spends requirements and values of selectors that are parsed.
func (b *Budget) Terms(n int) bool { return b == nil || spend(&b.terms, n) }

// Copies spends readings that belong to further metrics.
func (b *Budget) Copies(n int) bool { return b == nil || spend(&b.copies, n) }

// Cells spends pods or samples of one metric each.
func (b *Budget) Cells(n int) bool { return b == nil || spend(&b.cells, n) }

// Pods grants up to that many pods to be listed by an explanation.
func (b *Budget) Pods(wanted int) (granted int) {
	if b == nil {
		return wanted
	}
	granted = min(wanted, b.pods, max(0, b.memory)/podMemory)
	b.pods -= granted
	b.memory -= granted * podMemory
	return granted
}

// spend leaves less than nothing where there is too little, so that it fails from then on.
func spend(left *int, n int) bool {
	*left -= n
	return *left >= 0
}
