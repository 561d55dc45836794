package cost

// Grant makes it a budget of so many bytes of memory.
func (b *Budget) Grant(memory int) { b.memory = memory }
