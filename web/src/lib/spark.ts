// The last hour of a target's count, small enough to keep for ten thousand targets.

/** Instants (s of Unix time) and counts where the count changed, oldest first. */
export class Spark {
  times: number[] = [];
  counts: number[] = [];
  /** When anything was last known. */
  last = 0;

  /** Notes a count at an instant; what comes late is put in its place. */
  add(time: number, n: number, since: number): boolean {
    if (time < since) return false;
    let i = this.times.length;
    while (i > 0 && this.times[i - 1]! > time) i--;
    this.last = Math.max(this.last, time);
    if (i > 0 && this.counts[i - 1] === n) return false;
    if (i > 0 && this.times[i - 1] === time) this.counts[i - 1] = n;
    else if (i < this.times.length && this.counts[i] === n) this.times[i] = time;
    else {
      this.times.splice(i, 0, time);
      this.counts.splice(i, 0, n);
    }
    if (this.times.length > most) {
      this.times.shift();
      this.counts.shift();
    }
    return true;
  }

  /** Forgets what is older, but for the count that still holds then. */
  cut(since: number): void {
    let n = 0;
    while (n + 1 < this.times.length && this.times[n + 1]! <= since) n++;
    if (n > 0) {
      this.times.splice(0, n);
      this.counts.splice(0, n);
    }
  }

  /** 1: the last change went up; -1: down; 0: none is known. */
  direction(): number {
    const n = this.counts.length;
    return n > 1 ? Math.sign(this.counts[n - 1]! - this.counts[n - 2]!) : 0;
  }
}

/** Changes that are kept of one target. */
const most = 64;
