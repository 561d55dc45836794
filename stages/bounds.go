package stages

// bounds edits the spec's bounds by schedules that act at once and by the caller's floors, and collects
// the limits and votes of those that are paced.
func (r *run) bounds() {}
