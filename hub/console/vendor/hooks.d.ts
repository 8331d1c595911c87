export function useCallback<T extends (...values: any[]) => any>(call: T, inputs: readonly unknown[]): T;
export function useEffect(effect: () => void | (() => void), inputs?: readonly unknown[]): void;
export function useLayoutEffect(effect: () => void | (() => void), inputs?: readonly unknown[]): void;
export function useMemo<T>(make: () => T, inputs: readonly unknown[]): T;
export function useRef<T>(first: T): { current: T };
export function useState<T>(first: T | (() => T)): [T, (next: T | ((was: T) => T)) => void];
