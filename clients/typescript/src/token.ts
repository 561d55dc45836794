import { readFile, stat } from "node:fs/promises";

/** Returns the bearer token for an attempt of a call. Where it fails the call fails with UNAUTHENTICATED. */
export type TokenSource = () => string | Promise<string>;

/**
 * The content of a file, without the space around it, as bearer token. It is read again when it
 * has changed. While it can't be read, or is empty, the token read last is sent.
 */
export function tokenFile(name: string): TokenSource {
  let last = "", version = "";
  return async () => {
    try {
      const { ino, mtimeMs, size } = await stat(name);
      const now = `${ino} ${mtimeMs} ${size}`;
      if (last === "" || now !== version) {
        const token = (await readFile(name, "utf8")).trim();
        if (token === "") {
          throw new Error(`${name} is empty`);
        }
        [last, version] = [token, now];
      }
    } catch (error) {
      if (last === "") {
        throw error;
      }
    }
    return last;
  };
}
