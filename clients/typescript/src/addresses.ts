/** readAddresses returns the addresses of a list that commas separate, each with its port. */
export function readAddresses(list: string, defaultPort = "9090"): string[] {
  if (typeof list !== "string") {
    throw new TypeError("setpoint: the target must be a string, addresses separated by commas");
  }
  const all = list.split(",").map((part) => withPort(part.trim(), defaultPort, list));
  return [...new Set(all)];
}

function withPort(address: string, defaultPort: string, list: string): string {
  const wrong = () => new TypeError(`setpoint: address ${JSON.stringify(address)} in ${JSON.stringify(list)} is not host:port`);
  const match = /^(?:\[([0-9A-Fa-f:.%]+)\]|([^:\s/[\]]+))(?::(\d{1,5}))?$/.exec(address);
  if (match && Number(match[3] ?? 1) > 0 && Number(match[3] ?? 1) < 65536) {
    return `${match[1] ? `[${match[1]}]` : match[2]}:${match[3] ?? defaultPort}`;
  }
  if (/^[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*$/.test(address) && address.split(":").length > 2) {
    return `[${address}]:${defaultPort}`; // an IPv6 address without brackets
  }
  throw wrong();
}

/** onLoopback reports whether an address of readAddresses is of this machine only. */
export function onLoopback(address: string): boolean {
  const host = address.slice(0, address.lastIndexOf(":")).replace(/^\[|\]$/g, "");
  return host === "localhost" || /^127(\.\d{1,3}){3}$/.test(host) || /^(0*:)+:?0*1$/.test(host);
}
