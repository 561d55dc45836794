// Answers that may come in another order than they were asked for.

/** Begins a request with each call; what it returns tells whether the answer to that is newer than all that have come. */
export function inTurn(): () => () => boolean {
  let [asked, came] = [0, 0];
  return () => {
    const mine = ++asked;
    return () => mine > came && (came = mine) > 0;
  };
}
