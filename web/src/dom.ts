// Elements in one expression. Text goes in as text only, wherever it comes from.

type Attrs = Record<string, string | number | boolean | ((e: Event) => void)>;
type Child = Node | string | null | undefined | false;

export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K, attrs: Attrs = {}, ...children: Child[]
): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  for (const [name, v] of Object.entries(attrs)) {
    if (typeof v === "function") node.addEventListener(name, v);
    else if (typeof v === "boolean") node.toggleAttribute(name, v);
    else node.setAttribute(name, String(v));
  }
  node.append(...children.filter((c): c is Node | string => c !== null && c !== undefined && c !== false));
  return node;
}

/// Sets a text only when it changed: keeps selections and saves work.
export function text(node: HTMLElement, words: string): void {
  if (node.textContent !== words) node.textContent = words;
}

/// Something remembered by this browser; a browser that forbids it forgets.
export function recall(key: string): string | null {
  try {
    return localStorage.getItem(`forebay:${key}`);
  } catch {
    return null;
  }
}

export function remember(key: string, v: string): void {
  try {
    localStorage.setItem(`forebay:${key}`, v);
  } catch {
    // Private windows may forbid it; then nothing is remembered.
  }
}
