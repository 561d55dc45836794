package nomad

// Kept returns the number of groups with kept state.
func (p *Platform) Kept() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.kept)
}
